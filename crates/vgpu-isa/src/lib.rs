//! The gfx9 instruction sets of the virtual MI300 (gfx942) and MI200 (gfx90a): wave record, decoder, interpreter. It
//! knows memory, LDS and registers, and nothing of queues, packets or drivers.
//!
//! A [`wave::Wave`] is all the state a wave has between two instructions. [`code::Code`] decodes what it meets once;
//! [`run::run`] executes it. An operation is an entry of a table: mnemonic, opcode, and a handler; most vector
//! operations are functions of one lane ([`lanes`]).

#![allow(
    clippy::needless_range_loop,
    reason = "registers are arrays of lanes, and a lane number indexes several of them at once, as in the manuals"
)]

pub mod code;
pub mod decode;
mod exec;
pub mod guard;
pub mod inst;
pub mod lanes;
pub mod memory;
mod modify;
pub mod names;
pub mod operand;
pub mod run;
pub mod table;
pub mod wave;
