//! Moves between the register files.

use super::form::SOME;
use crate::harness::{Case, Machine, same};
use vgpu_isa::wave::LANES;

/// Lanes that are on take the source, the others keep what they had.
fn check(
    before: &Machine,
    after: &Machine,
    exec: u64,
    destination: fn(&Machine) -> &[u32; LANES],
    source: impl Fn(&Machine, usize) -> u32,
) -> Result<(), String> {
    for lane in 0..LANES {
        let want = if exec >> lane & 1 != 0 { source(before, lane) } else { destination(before)[lane] };
        same(&format!("lane {lane}"), destination(after)[lane], want)?;
    }
    Ok(())
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for exec in [!0, SOME, 0] {
        let setup = move |machine: &mut Machine| machine.wave.set_exec(exec);
        cases.push(Case::new("v_accvgpr_read_b32 v3, a201", setup, move |before, after| {
            same("source", after.wave.a, before.wave.a)?;
            check(before, after, exec, |m| m.v(3), |m, lane| m.wave.a[201][lane])
        }));
        cases.push(Case::new("v_accvgpr_write_b32 a255, v7", setup, move |before, after| {
            same("source", after.wave.v, before.wave.v)?;
            check(before, after, exec, |m| &m.wave.a[255], |m, lane| m.v(7)[lane])
        }));
        cases.push(Case::new("v_accvgpr_write_b32 a8, s77", setup, move |before, after| {
            check(before, after, exec, |m| &m.wave.a[8], |m, _| m.wave.s[77])
        }));
        cases.push(Case::new("v_accvgpr_write_b32 a8, -4.0", setup, move |before, after| {
            check(before, after, exec, |m| &m.wave.a[8], |_, _| 0xC080_0000)
        }));
        cases.push(Case::new("v_accvgpr_write_b32 a8, -7", setup, move |before, after| {
            check(before, after, exec, |m| &m.wave.a[8], |_, _| -7_i32 as u32)
        }));
        cases.push(Case::new("v_accvgpr_mov_b32 a8, a9", setup, move |before, after| {
            same("other file", after.wave.v, before.wave.v)?;
            check(before, after, exec, |m| &m.wave.a[8], |m, lane| m.wave.a[9][lane])
        }));
    }
    cases
}
