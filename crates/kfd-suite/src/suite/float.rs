//! Kernels on floating-point numbers. Additions and multiplications are IEEE on both sides and compared bit by bit.

use half::f16;

use kfd_runtime::Launch;

use super::job::{Argument, Inputs, Job};
use super::{ADVANCE, object};
use crate::chain::{LANES, State, Work};
use kfd_runtime::Placement::{Gtt, Uncached, UserMemory, Vram};

/// Work-items of a workgroup, where the kernel does not ask for fewer.
const GROUP: usize = 256;

/// One more than whole workgroups hold, so that the last one is nearly empty.
const COUNT: usize = 16 * GROUP + 1;

fn covering(count: usize, group: usize) -> Launch {
    Launch::linear(count.div_ceil(group) as u32, group as u16)
}

pub(super) fn vadd(seed: u64) -> Job {
    let mut inputs = Inputs::new(seed, "vadd");
    let a = inputs.many(COUNT, Inputs::unit);
    let b = inputs.many(COUNT, Inputs::unit);
    let sum: Vec<f32> = a.iter().zip(&b).map(|(a, b)| a + b).collect();
    Job {
        object: object!("vadd"),
        kernel: "vadd",
        launch: covering(COUNT, GROUP),
        arguments: vec![
            Argument::input(Vram, &a),
            Argument::input(Vram, &b),
            Argument::output(Vram, &sum),
            Argument::U32(COUNT as u32),
        ],
    }
}

pub(super) fn saxpy(seed: u64) -> Job {
    let mut inputs = Inputs::new(seed, "saxpy");
    let scale = inputs.unit();
    let x = inputs.many(COUNT, Inputs::unit);
    let y = inputs.many(COUNT, Inputs::unit);
    let after: Vec<f32> = x.iter().zip(&y).map(|(x, y)| scale * x + y).collect();
    Job {
        object: object!("saxpy"),
        kernel: "saxpy",
        launch: covering(COUNT, GROUP),
        arguments: vec![
            Argument::input(Gtt, &x),
            Argument::changed(Gtt, &y, &after),
            Argument::F32(scale),
            Argument::U32(COUNT as u32),
        ],
    }
}

/// The sums in the order in which the lanes make them.
fn halving_sum(values: &[f32]) -> f32 {
    let mut sums = [0.0; GROUP];
    sums[..values.len()].copy_from_slice(values);
    let mut half = GROUP / 2;
    while half > 0 {
        let (low, high) = sums.split_at_mut(half);
        for (low, high) in low.iter_mut().zip(high) {
            *low += *high;
        }
        half /= 2;
    }
    sums[0]
}

pub(super) fn reduce(seed: u64) -> Job {
    let values = Inputs::new(seed, "reduce").many(COUNT, Inputs::unit);
    let partial: Vec<f32> = values.chunks(GROUP).map(halving_sum).collect();
    Job {
        object: object!("reduce"),
        kernel: "reduce",
        launch: covering(COUNT, GROUP),
        arguments: vec![Argument::input(Gtt, &values), Argument::output(Gtt, &partial), Argument::U32(COUNT as u32)],
    }
}

fn softmax_row(row: &[f32]) -> Vec<f32> {
    let largest = row.iter().copied().map(f64::from).fold(f64::NEG_INFINITY, f64::max);
    let powers: Vec<f64> = row.iter().map(|&value| (f64::from(value) - largest).exp()).collect();
    let sum: f64 = powers.iter().sum();
    powers.iter().map(|power| (power / sum) as f32).collect()
}

pub(super) fn softmax(seed: u64) -> Job {
    const ROWS: usize = 24;
    const COLUMNS: usize = 200;
    const LANES: usize = 64;
    let values = Inputs::new(seed, "softmax").many(ROWS * COLUMNS, |inputs| inputs.unit() * 8.0);
    let expected = values.chunks(COLUMNS).flat_map(softmax_row).collect();
    Job {
        object: object!("softmax"),
        kernel: "softmax",
        launch: Launch::linear(ROWS as u32, LANES as u16),
        // The machine's exponential is good to about one unit in the last place; the argument is rounded before it.
        arguments: vec![
            Argument::input(Gtt, &values),
            Argument::near(Gtt, expected, 1e-5, 1e-6),
            Argument::U32(COLUMNS as u32),
        ],
    }
}

fn spin_result(item: usize, iterations: u32) -> f32 {
    let target = (item + 1) as f32;
    let mut value = 0.0;
    for _ in 0..iterations {
        let next = value * 0.5 + target;
        if next == value {
            // It has arrived and stays.
            break;
        }
        value = next;
    }
    value
}

pub(super) fn spin(_: u64) -> Job {
    spin_for(20_000)
}

/// A kernel that takes as long as it is told: its waves do so many steps.
#[must_use]
pub fn spin_for(iterations: u32) -> Job {
    const GROUPS: usize = 8;
    const LANES: usize = 64;
    let expected: Vec<f32> = (0..GROUPS * LANES).map(|item| spin_result(item, iterations)).collect();
    Job {
        object: object!("spin"),
        kernel: "spin",
        launch: Launch::linear(GROUPS as u32, LANES as u16),
        arguments: vec![Argument::output(Uncached, &expected), Argument::U32(iterations)],
    }
}

pub(super) fn advance(_: u64) -> Job {
    let work = Work { groups: 6, steps: 3000 };
    let [before, after] = [0, 1].map(|kernels| State::after(work, kernels));
    Job {
        object: ADVANCE,
        kernel: "advance",
        launch: Launch::linear(work.groups, LANES as u16),
        arguments: vec![
            Argument::changed(Gtt, &before.values, &after.values),
            Argument::changed(Vram, &before.marks, &after.marks),
            Argument::output(Gtt, &after.counts),
            Argument::U32(0),
            Argument::U32(work.steps),
        ],
    }
}

fn bfloat_bits(value: f32) -> u16 {
    half::bf16::from_f32(value).to_bits()
}

/// What a half becomes when multiplied with itself: single precision holds the product exactly, so rounding it once
/// more is rounding it once.
fn squared(value: f32) -> u16 {
    let half = f16::from_f32(value).to_f32();
    f16::from_f32(half * half).to_bits()
}

pub(super) fn narrow(seed: u64) -> Job {
    // Every range: tiny results, results too large, ties between two neighbours.
    let values = Inputs::new(seed, "narrow").many(COUNT, |inputs| {
        let exponent = (inputs.word() % 60) as i32 - 30;
        let value = inputs.unit() * 2f32.powi(exponent);
        if inputs.word().is_multiple_of(4) { f32::from_bits(value.to_bits() & !0xFFF) } else { value }
    });
    let each = |convert: fn(f32) -> u16| values.iter().map(|&value| convert(value)).collect::<Vec<u16>>();
    Job {
        object: object!("narrow"),
        kernel: "narrow",
        launch: covering(COUNT, GROUP),
        arguments: vec![
            Argument::input(UserMemory, &values),
            Argument::output(Gtt, &each(|value| f16::from_f32(value).to_bits())),
            Argument::output(Gtt, &each(bfloat_bits)),
            Argument::output(Gtt, &each(squared)),
            Argument::U32(COUNT as u32),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_halving_sum_counts_every_value_once() {
        let values: Vec<f32> = (1..=200).map(|value| value as f32).collect();
        assert_eq!(halving_sum(&values), 20_100.0);
    }

    #[test]
    fn a_row_of_equal_values_shares_evenly() {
        assert_eq!(softmax_row(&[3.0; 4]), [0.25; 4]);
    }

    #[test]
    fn the_recurrence_arrives_at_twice_its_target() {
        assert_eq!(spin_result(4, 20_000), 10.0);
        assert_eq!(spin_result(4, 2), 7.5);
    }

    #[test]
    fn bfloat_rounds_ties_to_even() {
        assert_eq!(bfloat_bits(f32::from_bits(0x3F80_8000)), 0x3F80);
        assert_eq!(bfloat_bits(f32::from_bits(0x3F81_8000)), 0x3F82);
        assert_eq!(bfloat_bits(f32::from_bits(0x3F80_8001)), 0x3F81);
    }
}
