//! The device alone: packets in, memory and interrupts out.

mod aql;
mod chains;
mod gws;
mod kernels;
mod machine;
mod malformed;
mod places;
mod pm4;
mod preemption;
mod random;
mod read_index;
mod save;
mod sdma;
mod traps;
mod walker;
