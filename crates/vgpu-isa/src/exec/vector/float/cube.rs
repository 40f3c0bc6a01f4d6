//! Cube map coordinates: the face a direction hits and where.

use super::define::lane;
use crate::inst::Encoding::Vop3;
use crate::inst::Op;
use crate::lanes::lane;

const SIGN: u32 = 1 << 31;

/// The results for the three axes, first of which is the direction's longest; later axes win ties.
#[inline(always)]
fn by_axis([x, y, z]: [u32; 3], on_x: u32, on_y: u32, on_z: u32) -> u32 {
    let length = |bits: u32| f32::from_bits(bits & !SIGN);
    let (ax, ay, az) = (length(x), length(y), length(z));
    let below = if ay >= ax { on_y } else { on_x };
    if (az >= ax) & (az >= ay) { on_z } else { below }
}

#[inline(always)]
fn negative(bits: u32) -> bool {
    f32::from_bits(bits) < 0.0
}

/// One of two numbers by the sign of an axis.
#[inline(always)]
fn side(axis: u32, minus: u32, plus: u32) -> u32 {
    if negative(axis) { minus } else { plus }
}

#[inline(always)]
fn face([x, y, z]: [u32; 3]) -> u32 {
    let number = |n: f32| n.to_bits();
    by_axis(
        [x, y, z],
        side(x, number(1.0), number(0.0)),
        side(y, number(3.0), number(2.0)),
        side(z, number(5.0), number(4.0)),
    )
}

#[inline(always)]
fn s_coordinate([x, y, z]: [u32; 3]) -> u32 {
    by_axis([x, y, z], side(x, z, z ^ SIGN), x, side(z, x ^ SIGN, x))
}

#[inline(always)]
fn t_coordinate([x, y, z]: [u32; 3]) -> u32 {
    by_axis([x, y, z], y ^ SIGN, side(y, z ^ SIGN, z), y ^ SIGN)
}

#[inline(always)]
fn major_axis([x, y, z]: [u32; 3]) -> u32 {
    (f32::from_bits(by_axis([x, y, z], x, y, z)) * 2.0).to_bits()
}

lane!(CubeId: F32, F32, F32 => F32, face);
lane!(CubeSc: F32, F32, F32 => F32, s_coordinate);
lane!(CubeTc: F32, F32, F32 => F32, t_coordinate);
lane!(CubeMa: F32, F32, F32 => F32, major_axis);

/// Operations of this file.
pub(super) static OPS: &[Op] = &[
    lane::<CubeId>(Vop3, 452, "v_cubeid_f32"),
    lane::<CubeSc>(Vop3, 453, "v_cubesc_f32"),
    lane::<CubeTc>(Vop3, 454, "v_cubetc_f32"),
    lane::<CubeMa>(Vop3, 455, "v_cubema_f32"),
];
