//! One test for every opcode, against expectations that do not come from the interpreter.
//!
//! A case is an instruction in assembler text, a state before, and a check of the state after. The encodings are
//! llvm-mc's; they stand in `encodings/`, so that the tests need no LLVM, and `encodings_are_those_of_llvm_mc` (run
//! where llvm-mc-19 is installed) compares them or, with UPDATE_ENCODINGS=1, writes them anew.
#![allow(clippy::needless_range_loop, reason = "a lane number indexes several registers at once")]

mod access;
mod buffer;
mod ds;
mod flat;
mod float;
mod harness;
mod integer;
mod matrix;
mod scalar;
mod smem;
mod tested;

use harness::Family;

static FAMILIES: [Family; 8] = [
    Family::new("scalar", scalar::cases, include_str!("encodings/scalar.txt")),
    Family::new("smem", smem::cases, include_str!("encodings/smem.txt")),
    Family::new("integer", integer::cases, include_str!("encodings/integer.txt")),
    Family::new("float", float::cases, include_str!("encodings/float.txt")),
    Family::new("matrix", matrix::cases, include_str!("encodings/matrix.txt")),
    Family::new("ds", ds::cases, include_str!("encodings/ds.txt")),
    Family::new("flat", flat::cases, include_str!("encodings/flat.txt")),
    Family::new("buffer", buffer::cases, include_str!("encodings/buffer.txt")),
];

macro_rules! family_tests {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            FAMILIES.iter().find(|f| f.name == stringify!($name)).expect("listed").run();
        })*
    };
}

/// Each runs all cases of its family.
mod instructions {
    use super::FAMILIES;

    family_tests!(scalar smem integer float matrix ds flat buffer);
}

#[test]
#[ignore = "needs llvm-mc-19"]
fn encodings_are_those_of_llvm_mc() {
    for family in &FAMILIES {
        family.assemble();
    }
}
