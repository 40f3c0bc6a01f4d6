//! One test for every opcode, against expectations that do not come from the interpreter.
//!
//! A case is an instruction in assembler text, a state before, and a check of the state after. The encodings are
//! llvm-mc's; they stand in `encodings/`, so that the tests need no LLVM, and `encodings_are_those_of_llvm_mc` (run
//! where llvm-mc-19 is installed) compares them or, with UPDATE_ENCODINGS=1, writes them anew.
//!
//! The cases of gfx942 run for gfx90a as well, except those whose instruction it does not have; `differences.txt` lists
//! them and those that are encoded differently. What only gfx90a has is the family of that name.
#![allow(clippy::needless_range_loop, reason = "a lane number indexes several registers at once")]

mod access;
mod buffer;
mod ds;
mod flat;
mod float;
mod gfx90a;
mod harness;
mod integer;
mod llvm_mc;
mod matrix;
mod opcodes;
mod scalar;
mod smem;
mod tested;

use harness::Family;
use vgpu_isa::inst::Target;

static FAMILIES: [Family; 9] = [
    Family::new("scalar", Target::Gfx942, scalar::cases, include_str!("encodings/scalar.txt")),
    Family::new("smem", Target::Gfx942, smem::cases, include_str!("encodings/smem.txt")),
    Family::new("integer", Target::Gfx942, integer::cases, include_str!("encodings/integer.txt")),
    Family::new("float", Target::Gfx942, float::cases, include_str!("encodings/float.txt")),
    Family::new("matrix", Target::Gfx942, matrix::cases, include_str!("encodings/matrix.txt")),
    Family::new("ds", Target::Gfx942, ds::cases, include_str!("encodings/ds.txt")),
    Family::new("flat", Target::Gfx942, flat::cases, include_str!("encodings/flat.txt")),
    Family::new("buffer", Target::Gfx942, buffer::cases, include_str!("encodings/buffer.txt")),
    Family::new("gfx90a", Target::Gfx90a, gfx90a::cases, include_str!("encodings/gfx90a.txt")),
];

macro_rules! family_tests {
    ($target:ident: $($name:ident)*) => {
        $(#[test]
        fn $name() {
            FAMILIES.iter().find(|f| f.name == stringify!($name)).expect("listed").run(Target::$target);
        })*
    };
}

/// Each runs all cases of its family.
mod instructions {
    use super::{FAMILIES, Target};

    family_tests!(Gfx942: scalar smem integer float matrix ds flat buffer);
}

/// The same on gfx90a.
mod instructions_of_mi200 {
    use super::{FAMILIES, Target};

    family_tests!(Gfx90a: scalar smem integer float matrix ds flat buffer gfx90a);
}

#[test]
#[ignore = "needs llvm-mc-19"]
fn encodings_are_those_of_llvm_mc() {
    for family in &FAMILIES {
        family.assemble();
    }
    harness::assemble_differences(&FAMILIES);
}
