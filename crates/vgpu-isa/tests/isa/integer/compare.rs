//! Comparisons: conditions as sets of relations, classes by the fields of floats.

use std::cmp::Ordering;

use super::support::{PARTIAL, changed, edge, hash, low};
use crate::harness::{Case, Machine};
use vgpu_isa::wave::{VCC, Wave, mode};

/// A type: suffix, bits, and what it is.
#[derive(Clone, Copy, PartialEq)]
enum Sort {
    Float,
    Signed,
    Unsigned,
}

const TYPES: [(&str, u32, Sort); 9] = [
    ("f16", 16, Sort::Float),
    ("f32", 32, Sort::Float),
    ("f64", 64, Sort::Float),
    ("i16", 16, Sort::Signed),
    ("u16", 16, Sort::Unsigned),
    ("i32", 32, Sort::Signed),
    ("u32", 32, Sort::Unsigned),
    ("i64", 64, Sort::Signed),
    ("u64", 64, Sort::Unsigned),
];

/// The relations for which a condition holds: less, equal, greater, unordered.
const FLOAT_CONDITIONS: [(&str, &str); 16] = [
    ("f", ""),
    ("lt", "<"),
    ("eq", "="),
    ("le", "<="),
    ("gt", ">"),
    ("lg", "<>"),
    ("ge", ">="),
    ("o", "<=>"),
    ("u", "?"),
    ("nge", "<?"),
    ("nlg", "=?"),
    ("ngt", "<=?"),
    ("nle", ">?"),
    ("neq", "<>?"),
    ("nlt", ">=?"),
    ("tru", "<=>?"),
];

const INTEGER_CONDITIONS: [(&str, &str); 8] =
    [("f", ""), ("lt", "<"), ("eq", "="), ("le", "<="), ("gt", ">"), ("ne", "<>"), ("ge", ">="), ("t", "<=>")];

/// Bits of the fraction.
fn fraction_bits(bits: u32) -> u32 {
    match bits {
        16 => 10,
        32 => 23,
        _ => 52,
    }
}

/// Exponent field, all ones of it, and fraction.
fn fields(x: u64, bits: u32) -> (u64, u64, u64) {
    let fraction = fraction_bits(bits);
    let ones = (1 << (bits - 1 - fraction)) - 1;
    (x >> fraction & ones, ones, x & ((1 << fraction) - 1))
}

fn relation(a: u64, b: u64, bits: u32, sort: Sort) -> char {
    let nan = |x: u64| matches!(fields(x, bits), (exponent, ones, fraction) if exponent == ones && fraction != 0);
    let key = |x: u64| match sort {
        Sort::Unsigned => i128::from(x),
        Sort::Signed if x >> (bits - 1) == 1 => i128::from(x) - (1 << bits),
        Sort::Signed => i128::from(x),
        // Floats of one sign have the order of their patterns.
        Sort::Float if x >> (bits - 1) == 1 => -i128::from(x - (1 << (bits - 1))),
        Sort::Float => i128::from(x),
    };
    if sort == Sort::Float && (nan(a) || nan(b)) {
        return '?';
    }
    match key(a).cmp(&key(b)) {
        Ordering::Less => '<',
        Ordering::Equal => '=',
        Ordering::Greater => '>',
    }
}

/// Floats of all classes and both signs.
fn float(seed: u64, bits: u32) -> u64 {
    let fraction = fraction_bits(bits);
    let (one, ones) = (1_u64 << fraction, (1_u64 << (bits - 1 - fraction)) - 1);
    let infinite = ones << fraction;
    let middle = (ones >> 1) << fraction;
    let h = hash(seed);
    let magnitude = match h % 14 {
        0 => 0,
        1 => 1,
        2 => one - 1,
        3 => one,
        4 => middle,
        5 => middle + 1,
        6 => infinite - 1,
        7 => infinite,
        8 => infinite + 1,
        9 => infinite + one / 2 - 1,
        10 => infinite + one / 2,
        11 => infinite + one - 1,
        12 => low(hash(h), fraction),
        _ => low(hash(h), bits - 1),
    };
    magnitude | (h >> 40 & 1) << (bits - 1)
}

fn number(seed: u64, bits: u32, sort: Sort) -> u64 {
    if sort == Sort::Float { float(seed, bits) } else { low(edge(seed), bits) }
}

/// A way to write a comparison.
#[derive(Clone, Copy)]
struct Form {
    suffix: &'static str,
    destination: &'static str,
    first: &'static str,
    second: &'static str,
    exec: u64,
    flush: bool,
}

const SHORT: Form = Form { suffix: "_e32", destination: "vcc", first: "V4", second: "V6", exec: !0, flush: false };
const LONG: Form = Form { suffix: "_e64", destination: "s[40:41]", ..SHORT };

fn forms(sort: Sort) -> Vec<Form> {
    let mut forms = vec![
        SHORT,
        Form { exec: PARTIAL, first: "LITERAL", ..SHORT },
        Form { first: "S30", ..SHORT },
        LONG,
        Form { exec: PARTIAL, second: "S30", ..LONG },
        Form { exec: 0, destination: "vcc", ..LONG },
        Form { first: "-3", destination: "s[40:41]", ..LONG },
    ];
    if sort == Sort::Float {
        forms.extend([
            Form { first: "-V4", second: "|V6|", ..LONG },
            Form { first: "|V4|", second: "-|V6|", exec: PARTIAL, ..LONG },
            Form { flush: true, ..SHORT },
            Form { first: "-V4", flush: true, ..LONG },
            Form { first: "1.0", ..SHORT },
        ]);
    }
    forms
}

/// The text of an operand for a width.
fn text(operand: &str, bits: u32) -> String {
    let literal = if bits == 16 { "0x8765" } else { "0x87654321" };
    let register = |letter: &str, n: u32| {
        if bits == 64 { format!("{letter}[{n}:{}]", n + 1) } else { format!("{letter}{n}") }
    };
    operand
        .replace("LITERAL", literal)
        .replace("V4", &register("v", 4))
        .replace("V6", &register("v", 6))
        .replace("S30", &register("s", 30))
}

/// The value of an operand, with its modifiers.
fn value(operand: &str, machine: &Machine, lane: usize, bits: u32, sort: Sort) -> u64 {
    let sign = 1 << (bits - 1);
    let wave = &machine.wave;
    let bare = operand.trim_start_matches('-').trim_matches('|');
    let raw = match bare {
        "V4" => machine.v64(4, lane),
        "V6" => machine.v64(6, lane),
        "S30" => wave.s64(30),
        "1.0" => [0x3C00, 0x3F80_0000, 0x3FF0_0000_0000_0000][bits.ilog2() as usize - 4],
        "3" => return low(-3_i64 as u64, bits),
        // The literal: integers by their sign, doubles have it as high half.
        _ => match (bits, sort) {
            (16, _) => 0x8765,
            (32, _) => 0x8765_4321,
            (_, Sort::Float) => 0x8765_4321 << 32,
            (_, Sort::Signed) => 0x8765_4321 | 0xFFFF_FFFF << 32,
            (_, Sort::Unsigned) => 0x8765_4321,
        },
    };
    let value = low(raw, bits);
    let value = if operand.contains('|') { value & !sign } else { value };
    if operand.starts_with('-') { value ^ sign } else { value }
}

fn setup(machine: &mut Machine, form: Form, bits: u32, sort: Sort, seed: u64) {
    let first = |lane: usize| seed + lane as u64;
    // Every third pair is equal.
    let second = |lane: usize| if lane % 3 == 0 { first(lane) } else { first(lane) + 1000 };
    // What lies above 16 bits must not matter.
    let above = |place: u64| if bits == 16 { hash(place + 9) << 16 } else { 0 };
    let operand = |place: u64| number(place, bits, sort) | above(place);
    machine.set_v64(4, |lane| operand(first(lane)));
    machine.set_v64(6, |lane| operand(second(lane)));
    machine.wave.set_s64(30, number(seed + 5000, bits, sort));
    machine.wave.set_exec(form.exec);
    if form.flush {
        machine.wave.set_mode(mode::USUAL & !(mode::DENORM_32 | mode::DENORM_64_16));
    }
}

/// Writes the bits of a comparison.
fn write(wave: &mut Wave, form: Form, x: bool, holds: impl Fn(usize) -> bool) {
    let on = (0..64).filter(|lane| form.exec >> lane & 1 == 1);
    let mask = on.filter(|&lane| holds(lane)).map(|lane| 1_u64 << lane).sum();
    wave.set_s64(if form.destination == "vcc" { VCC } else { 40 }, mask);
    if x {
        wave.set_exec(mask);
    }
}

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (suffix, bits, sort) in TYPES {
        let conditions: &[_] = if sort == Sort::Float { &FLOAT_CONDITIONS } else { &INTEGER_CONDITIONS };
        for &(condition, relations) in conditions {
            for x in [false, true] {
                for form in forms(sort) {
                    cases.push(case(condition, relations, suffix, bits, sort, x, form));
                }
            }
        }
    }
    cases.extend(classes());
    cases
}

fn case(condition: &str, relations: &'static str, suffix: &str, bits: u32, sort: Sort, x: bool, form: Form) -> Case {
    let name = format!("v_cmp{}_{condition}_{suffix}{}", if x { "x" } else { "" }, form.suffix);
    let asm = format!("{name} {}, {}, {}", form.destination, text(form.first, bits), text(form.second, bits));
    let seed = asm.bytes().fold(1, |sum, byte| (sum * 131 + u64::from(byte)) % (1 << 40));
    Case::new(
        asm,
        move |machine| setup(machine, form, bits, sort, seed),
        move |before, after| {
            let flushed = |x: u64| {
                let denormal = form.flush && fields(x, bits).0 == 0;
                if denormal { x & 1 << (bits - 1) } else { x }
            };
            let holds = |lane: usize| {
                let a = flushed(value(form.first, before, lane, bits, sort));
                let b = flushed(value(form.second, before, lane, bits, sort));
                relations.contains(relation(a, b, bits, sort))
            };
            changed(before, after, |wave| write(wave, form, x, holds))
        },
    )
}

/// The bit of a float's class.
fn class(x: u64, bits: u32) -> u32 {
    let (exponent, ones, fraction) = fields(x, bits);
    let negative = x >> (bits - 1) == 1;
    let of = |if_negative: u32, if_positive: u32| if negative { if_negative } else { if_positive };
    if exponent == ones {
        match fraction {
            0 => of(2, 9),
            _ if fraction >= 1 << (fraction_bits(bits) - 1) => 1,
            _ => 0,
        }
    } else if exponent == 0 {
        if fraction == 0 { of(5, 6) } else { of(4, 7) }
    } else {
        of(3, 8)
    }
}

fn classes() -> Vec<Case> {
    let mut cases = Vec::new();
    for (suffix, bits, sort) in TYPES.into_iter().filter(|(_, _, sort)| *sort == Sort::Float) {
        for x in [false, true] {
            let mut forms = vec![
                SHORT,
                Form { exec: PARTIAL, first: "LITERAL", ..SHORT },
                Form { flush: true, ..SHORT },
                LONG,
                Form { first: "-V4", exec: PARTIAL, ..LONG },
                Form { first: "|V4|", ..LONG },
                Form { first: "-|V4|", flush: true, ..LONG },
            ];
            // A constant mask: one bit of the class, and all but the lowest two.
            forms.extend([Form { second: "16", ..LONG }, Form { second: "-4", ..LONG }]);
            for form in forms {
                let name = format!("v_cmp{}_class_{suffix}{}", if x { "x" } else { "" }, form.suffix);
                let asm = format!("{name} {}, {}, {}", form.destination, text(form.first, bits), text(form.second, 32));
                let seed = asm.len() as u64 * 77 + u64::from(bits);
                let set = move |machine: &mut Machine| {
                    setup(machine, form, bits, sort, seed);
                    machine.set_v(6, |lane| 1 << (hash(lane as u64 + seed) % 10) | (hash(lane as u64) as u32) << 10);
                    for lane in 0..16 {
                        machine.wave.v[6][lane] = hash(lane as u64 + seed) as u32;
                    }
                };
                cases.push(Case::new(asm, set, move |before, after| {
                    let holds = |lane: usize| {
                        let mask = match form.second {
                            "16" => 16,
                            "-4" => !3,
                            _ => before.wave.v[6][lane],
                        };
                        // Classes are of the bits as they are: nothing is flushed.
                        mask >> class(value(form.first, before, lane, bits, sort), bits) & 1 == 1
                    };
                    changed(before, after, |wave| write(wave, form, x, holds))
                }));
            }
        }
    }
    cases
}
