//! Clocks, and caches that there are none of.

use super::changed;
use super::place::base;
use crate::harness::Case;

pub(super) fn cases() -> Vec<Case> {
    // The machine's 100 MHz counter stands at 42; shaders count at 2100 MHz.
    let clock = |asm: &str, first: usize, value: u32| {
        Case::new(asm, |_| {}, move |before, after| changed(before, after, &[(first, value), (first + 1, 0)], &[]))
    };
    let mut cases = vec![
        clock("s_memrealtime s[4:5]", 4, 42),
        clock("s_memrealtime vcc", 106, 42),
        clock("s_memtime s[4:5]", 4, 42 * 21),
    ];
    for asm in [
        "s_dcache_inv",
        "s_dcache_wb",
        "s_dcache_inv_vol",
        "s_dcache_wb_vol",
        "s_atc_probe 7, s[16:17], 0x40",
        "s_atc_probe 0, s[16:17], s50",
        "s_atc_probe_buffer 1, s[16:19], 0x40",
        "s_dcache_discard s[16:17], 0x40",
        "s_dcache_discard_x2 s[16:17], s50",
    ] {
        // None of them faults, wherever the address leads.
        cases.push(Case::new(asm, |m| base(m, 0x10), |before, after| changed(before, after, &[], &[])));
    }
    cases
}
