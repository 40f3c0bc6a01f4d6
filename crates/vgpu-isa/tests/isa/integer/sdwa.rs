//! Sub-dword addressing, in terms of byte arrays.

use super::support::{PARTIAL, changed, hash};
use crate::harness::{Case, Machine};
use vgpu_isa::wave::{VCC, Wave};

const SELECTS: [&str; 7] = ["BYTE_0", "BYTE_1", "BYTE_2", "BYTE_3", "WORD_0", "WORD_1", "DWORD"];
const UNUSED: [&str; 3] = ["UNUSED_PAD", "UNUSED_SEXT", "UNUSED_PRESERVE"];

/// The bytes that a select names.
fn part(select: &str) -> std::ops::Range<usize> {
    match select {
        "WORD_0" => 0..2,
        "WORD_1" => 2..4,
        "DWORD" => 0..4,
        _ => {
            let n = usize::from(select.as_bytes()[5] - b'0');
            n..n + 1
        }
    }
}

/// A part of a register as a number.
fn selected(register: u32, select: &str, sext: bool) -> i64 {
    let bytes = &register.to_le_bytes()[part(select)];
    let value = bytes.iter().rev().fold(0, |sum, &byte| sum * 256 + i64::from(byte));
    let top = 1 << (8 * bytes.len() - 1);
    if sext && value >= top { value - 2 * top } else { value }
}

/// The register after a part of it was written.
fn merged(old: u32, result: u32, select: &str, unused: &str) -> u32 {
    let place = part(select);
    let mut bytes = if unused == "UNUSED_PRESERVE" { old.to_le_bytes() } else { [0; 4] };
    let length = place.len();
    bytes[place.clone()].copy_from_slice(&result.to_le_bytes()[..length]);
    if unused == "UNUSED_SEXT" && bytes[place.end - 1] >= 0x80 {
        bytes[place.end..].fill(0xFF);
    }
    u32::from_le_bytes(bytes)
}

/// One instruction with its selections.
#[derive(Clone, Copy)]
struct Form {
    dst: &'static str,
    unused: &'static str,
    first: &'static str,
    second: &'static str,
    sext: (bool, bool),
    exec: u64,
}

impl Form {
    /// The n-th of forms that together have every selection in every place.
    fn nth(n: usize) -> Self {
        let h = hash(n as u64) as usize;
        Self {
            dst: SELECTS[n % 7],
            unused: UNUSED[n / 7 % 3],
            first: SELECTS[(n + n / 7) % 7],
            second: SELECTS[(h >> 8) % 7],
            sext: (h & 1 == 1, h & 2 == 2),
            exec: if n % 4 == 1 { PARTIAL } else { !0 },
        }
    }

    fn operand(self, n: usize, text: &str) -> String {
        let sext = if n == 0 { self.sext.0 } else { self.sext.1 };
        if sext { format!("sext({text})") } else { text.to_string() }
    }

    fn destination(self) -> String {
        format!("dst_sel:{} dst_unused:{}", self.dst, self.unused)
    }

    fn sources(self) -> String {
        format!("src0_sel:{} src1_sel:{}", self.first, self.second)
    }

    fn values(self, a: u32, b: u32) -> (i64, i64) {
        (selected(a, self.first, self.sext.0), selected(b, self.second, self.sext.1))
    }

    fn on(self) -> impl Iterator<Item = usize> {
        (0..64).filter(move |lane| self.exec >> lane & 1 == 1)
    }
}

fn setup(exec: u64) -> impl Fn(&mut Machine) {
    move |machine| {
        machine.set_v(4, |lane| hash(lane as u64) as u32);
        machine.set_v(6, |lane| hash(lane as u64 + 64) as u32);
        machine.wave.s[30] = 0xFE81_7F92;
        machine.wave.set_s64(VCC, hash(128));
        machine.wave.set_exec(exec);
    }
}

/// Name, bits of the operation, what it computes of sources without or with sign, and the range of clamp.
type Binary = (&'static str, u32, fn(i64, i64) -> i64, Option<i64>);

const BINARY: &[Binary] = &[
    ("v_add_u32", 32, |a, b| a + b, Some(0xFFFF_FFFF)),
    ("v_subrev_u32", 32, |a, b| b - a, Some(0xFFFF_FFFF)),
    ("v_and_b32", 32, |a, b| a & b, None),
    ("v_add_u16", 16, |a, b| a + b, Some(0xFFFF)),
    ("v_sub_u16", 16, |a, b| a - b, Some(0xFFFF)),
    ("v_max_i16", 16, |a, b| i64::from((a as i16).max(b as i16)), None),
];

fn binary(operation: &'static Binary, form: Form, scalar: bool, clamp: bool) -> Case {
    let &(name, bits, exact, most) = operation;
    let first = form.operand(0, if scalar { "s30" } else { "v4" });
    let clamped = if clamp { "clamp " } else { "" };
    let asm = format!(
        "{name}_sdwa v20, {first}, {} {clamped}{} {}",
        form.operand(1, "v6"),
        form.destination(),
        form.sources()
    );
    Case::new(asm, setup(form.exec), move |before, after| {
        let w = &before.wave;
        changed(before, after, |wave| {
            for lane in form.on() {
                let a = if scalar { w.s[30] } else { w.v[4][lane] };
                let (a, b) = form.values(a, w.v[6][lane]);
                // The operation sees the bits of its width, without sign.
                let seen = |x: i64| x.rem_euclid(1 << bits);
                let result = exact(seen(a), seen(b));
                let result = match most.filter(|_| clamp) {
                    Some(most) => result.clamp(0, most),
                    None => result.rem_euclid(1 << bits),
                };
                wave.v[20][lane] = merged(w.v[20][lane], result as u32, form.dst, form.unused);
            }
        })
    })
}

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (k, operation) in BINARY.iter().enumerate() {
        for n in 0..21 {
            let clamp = operation.3.is_some() && (n + k) % 3 == 0;
            cases.push(binary(operation, Form::nth(n + 21 * k), n % 5 == 4, clamp));
        }
    }
    for n in 0..49 {
        cases.push(moved(Form::nth(n)));
        if n % 3 == 0 {
            cases.push(carried(Form::nth(n)));
            cases.push(chosen(Form::nth(n)));
        }
        for signed in [false, true] {
            cases.push(compared(Form::nth(n), signed, n % 2 == 1));
        }
        if n % 2 == 0 {
            cases.push(float_compared(Form::nth(n), n % 4 == 0));
        }
    }
    cases
}

fn moved(form: Form) -> Case {
    let asm = format!("v_mov_b32_sdwa v20, {} {} src0_sel:{}", form.operand(0, "v4"), form.destination(), form.first);
    Case::new(asm, setup(form.exec), move |before, after| {
        let w = &before.wave;
        changed(before, after, |wave| {
            for lane in form.on() {
                let value = selected(w.v[4][lane], form.first, form.sext.0) as u32;
                wave.v[20][lane] = merged(w.v[20][lane], value, form.dst, form.unused);
            }
        })
    })
}

/// The carry is that of the 32-bit sum, whatever part of it is written.
fn carried(form: Form) -> Case {
    let operands = format!("{}, {}", form.operand(0, "v4"), form.operand(1, "v6"));
    let asm = format!("v_addc_co_u32_sdwa v20, vcc, {operands}, vcc {} {}", form.destination(), form.sources());
    Case::new(asm, setup(form.exec), move |before, after| {
        let w = &before.wave;
        changed(before, after, |wave| {
            let mut carries = 0;
            for lane in form.on() {
                let (a, b) = form.values(w.v[4][lane], w.v[6][lane]);
                let sum = a.rem_euclid(1 << 32) + b.rem_euclid(1 << 32) + i64::from(w.vcc() >> lane & 1 == 1);
                wave.v[20][lane] = merged(w.v[20][lane], sum as u32, form.dst, form.unused);
                carries |= u64::from(sum >= 1 << 32) << lane;
            }
            wave.set_s64(VCC, carries);
        })
    })
}

/// Signs are changed after the part is selected: at bit 31.
fn chosen(form: Form) -> Case {
    let form = Form { sext: (false, false), ..form };
    let asm = format!("v_cndmask_b32_sdwa v20, -v4, |v6|, vcc {} {}", form.destination(), form.sources());
    Case::new(asm, setup(form.exec), move |before, after| {
        let w = &before.wave;
        changed(before, after, |wave| {
            for lane in form.on() {
                let (a, b) = form.values(w.v[4][lane], w.v[6][lane]);
                let value = if w.vcc() >> lane & 1 == 1 { b as u32 & 0x7FFF_FFFF } else { a as u32 ^ 0x8000_0000 };
                wave.v[20][lane] = merged(w.v[20][lane], value, form.dst, form.unused);
            }
        })
    })
}

/// Writes the bits of a comparison, and EXEC.
fn masks(wave: &mut Wave, form: Form, register: usize, exec: bool, holds: impl Fn(usize) -> bool) {
    let mask = form.on().filter(|&lane| holds(lane)).map(|lane| 1_u64 << lane).sum();
    wave.set_s64(register, mask);
    if exec {
        wave.set_exec(mask);
    }
}

fn compared(form: Form, signed: bool, exec: bool) -> Case {
    let operands = format!("{}, {}", form.operand(0, "v4"), form.operand(1, "v6"));
    let (x, kind) = (if exec { "x" } else { "" }, if signed { "i32" } else { "u32" });
    let (to, register) = if signed { ("vcc", VCC) } else { ("s[40:41]", 40) };
    let asm = format!("v_cmp{x}_lt_{kind}_sdwa {to}, {operands} {}", form.sources());
    Case::new(asm, setup(form.exec), move |before, after| {
        let w = &before.wave;
        let holds = |lane: usize| {
            let (a, b) = form.values(w.v[4][lane], w.v[6][lane]);
            if signed { (a as i32) < b as i32 } else { (a as u32) < b as u32 }
        };
        changed(before, after, |wave| masks(wave, form, register, exec, holds))
    })
}

/// Half precision numbers in words: the sign that is modified is that of the word.
fn float_compared(form: Form, exec: bool) -> Case {
    let form = Form { sext: (false, false), ..form };
    let x = if exec { "x" } else { "" };
    let asm = format!("v_cmp{x}_nle_f16_sdwa s[40:41], -|v4|, -v6 {}", form.sources());
    Case::new(asm, setup(form.exec), move |before, after| {
        let w = &before.wave;
        let number = |bits: i64| half::f16::from_bits(bits.rem_euclid(1 << 16) as u16).to_f64();
        let holds = |lane: usize| {
            let (a, b) = form.values(w.v[4][lane], w.v[6][lane]);
            let (a, b) = (-number(a).abs(), -number(b));
            a > b || a.is_nan() || b.is_nan()
        };
        changed(before, after, |wave| masks(wave, form, 40, exec, holds))
    })
}
