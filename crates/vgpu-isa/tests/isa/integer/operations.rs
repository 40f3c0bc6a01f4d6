//! Every operation of the table in its forms, with every kind of operand.

use super::support::{Operand, PARTIAL, changed, fill, low, write};
use super::table::{SPECS, Spec};
use crate::harness::Case;

/// One way to write an operation.
#[derive(Clone)]
struct Form {
    suffix: &'static str,
    operands: Vec<Operand>,
    exec: u64,
    dst: usize,
    clamp: bool,
    /// Halves of the sources and of the destination (bit 3).
    op_sel: u8,
}

const DST: usize = 20;

pub(crate) fn cases() -> Vec<Case> {
    SPECS.iter().flat_map(|spec| forms(spec).into_iter().map(|form| case(spec, form))).collect()
}

fn forms(spec: &Spec) -> Vec<Form> {
    use Operand::{Float, Int, Literal, S, V, Vcc};
    let registers: Vec<Operand> = [V(4), V(6), V(8)][..spec.sources.len()].to_vec();
    let last = registers.len() - 1;
    // The first source, or another, replaced.
    let with = |n: usize, operand: Operand| {
        let mut operands = registers.clone();
        operands[n] = operand;
        operands
    };
    let plain = Form { suffix: "_e64", operands: registers.clone(), exec: !0, dst: DST, clamp: false, op_sel: 0 };
    let long = |operands: Vec<Operand>| Form { operands, ..plain.clone() };
    let mut forms = vec![
        Form { exec: PARTIAL, ..plain.clone() },
        Form { exec: 0, operands: with(0, V(10)), ..plain.clone() },
        Form { dst: 4, operands: with(last, V(4)), ..plain.clone() },
        long(with(0, S(30))),
        long(with(last, Int(-7))),
        long(with(last, Int(64))),
        long(with(0, Float(1))),
        long(with(last, Vcc)),
    ];
    if spec.short {
        let short = |operands: Vec<Operand>| Form { suffix: "_e32", operands, ..plain.clone() };
        forms.extend([
            short(registers.clone()),
            Form { exec: PARTIAL, dst: 6, ..short(with(0, V(10))) },
            short(with(0, S(31 - spec.sources[0] as usize / 64))),
            short(with(0, Vcc)),
            short(with(0, Int(-16))),
            short(with(0, Int(33))),
            short(with(0, Float(2))),
            short(with(0, Literal(if spec.sources[0] == 16 { 0x8765 } else { 0x8765_4321 }))),
        ]);
    } else {
        forms.push(plain.clone());
        forms.iter_mut().for_each(|form| form.suffix = "");
    }
    let suffix = if spec.short { "_e64" } else { "" };
    if spec.clamp.is_some() {
        forms.push(Form { suffix, clamp: true, ..plain.clone() });
        forms.push(Form { suffix, clamp: true, exec: PARTIAL, operands: with(last, Int(-1)), ..plain.clone() });
        forms.push(Form { suffix, clamp: true, operands: with(0, V(12)), ..plain.clone() });
    }
    // Halves can be chosen in what gfx9 brought.
    if spec.keeps || spec.name.ends_with("32_u16") || spec.name.ends_with("32_i16") {
        let selections: &[u8] = if spec.keeps { &[1, 2, 3, 8, 11, 9] } else { &[1, 2, 3] };
        let halves = |op_sel: u8| Form { suffix, op_sel, exec: PARTIAL, ..plain.clone() };
        forms.extend(selections.iter().map(|&op_sel| halves(op_sel)));
        if last == 2 && spec.keeps {
            forms.push(Form { clamp: spec.clamp.is_some(), ..halves(0b1110) });
        }
    }
    forms
}

fn case(spec: &'static Spec, form: Form) -> Case {
    let operand = |n: usize| form.operands[n].text(spec.sources[n]);
    let sources: Vec<String> = (0..spec.sources.len()).map(operand).collect();
    let dst = Operand::V(form.dst).text(spec.result);
    let mut asm = format!("{}{} {dst}, {}", spec.name, form.suffix, sources.join(", "));
    if form.op_sel != 0 {
        let bits = (0..sources.len()).chain([3]).map(|n| (form.op_sel >> n & 1).to_string());
        asm += &format!(" op_sel:[{}]", bits.collect::<Vec<_>>().join(","));
    }
    if form.clamp {
        asm += " clamp";
    }
    let seed = asm.bytes().fold(7, |sum, byte| (sum * 31 + u64::from(byte)) % (1 << 40));
    let (operands, exec) = (form.operands.clone(), form.exec);
    Case::new(
        asm,
        move |machine| {
            fill(machine, &operands, seed);
            machine.wave.set_exec(exec);
        },
        move |before, after| {
            let result = |lane: usize| {
                let mut sources = [0; 3];
                for (n, &bits) in spec.sources.iter().enumerate() {
                    let upper = bits == 16 && form.op_sel >> n & 1 == 1;
                    let value = form.operands[n].value(before, lane, if upper { 32 } else { bits });
                    sources[n] = i128::from(if upper { value / 0x1_0000 } else { value });
                }
                let exact = (spec.exact)(sources);
                let exact = match spec.clamp.filter(|_| form.clamp) {
                    Some((least, most)) => exact.max(least).min(most),
                    None => exact,
                };
                let value = low(exact.rem_euclid(1 << 64) as u64, spec.result);
                if spec.result > 16 {
                    return value;
                }
                let old = u64::from(before.wave.v[form.dst][lane]);
                match (form.op_sel & 8 != 0, spec.keeps) {
                    (true, _) => value * 0x1_0000 + old % 0x1_0000,
                    (false, true) => old / 0x1_0000 * 0x1_0000 + value,
                    (false, false) => value,
                }
            };
            changed(before, after, |wave| write(wave, form.dst, spec.result, exec, result))
        },
    )
}
