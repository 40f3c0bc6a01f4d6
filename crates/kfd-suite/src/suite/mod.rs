//! The suite: kernels with their inputs and expected results.
//!
//! A [`Job`] is plain data, computed on the host together with its expected results, so it can be looked at, and run by
//! anything that executes code objects. The sources are in `kernels/`, the objects beside them were built from those.

mod float;
mod integer;
mod job;
mod matrix;
mod system;

pub use float::spin_for;
pub use job::{Argument, BufferArgument, Expected, Job, Mismatch};

use kfd_runtime::Result;

use crate::bench::{Bench, Outcome};

/// The object of a kernel.
macro_rules! object {
    ($name:literal) => {
        include_bytes!(concat!("../../kernels/gfx942/", $name, ".hsaco"))
    };
}
use object;

/// The kernel of [`chain`](crate::chain)s.
pub(crate) const ADVANCE: &[u8] = object!("advance");

/// One test of the suite.
#[derive(Clone, Copy, Debug)]
pub struct Test {
    /// Its name.
    pub name: &'static str,
    /// What the test covers, for listings.
    pub about: &'static str,
    body: Body,
}

#[derive(Clone, Copy, Debug)]
enum Body {
    /// A kernel; made from a seed.
    Kernel(fn(u64) -> Job),
    /// Queues, copies and signals.
    System(fn(&mut Bench, u64) -> Result<Outcome>),
}

impl Test {
    /// Runs the test with inputs generated from the seed.
    ///
    /// # Errors
    ///
    /// If it could not be run to its end. A wrong result is an outcome, not an error.
    pub fn run(&self, bench: &mut Bench, seed: u64) -> Result<Outcome> {
        match self.body {
            Body::Kernel(make) => bench.run(&make(seed)),
            Body::System(run) => run(bench, seed),
        }
    }

    /// Returns the job of a test that is a single kernel.
    #[must_use]
    pub fn job(&self, seed: u64) -> Option<Job> {
        match self.body {
            Body::Kernel(make) => Some(make(seed)),
            Body::System(_) => None,
        }
    }
}

const fn kernel(name: &'static str, about: &'static str, make: fn(u64) -> Job) -> Test {
    Test { name, about, body: Body::Kernel(make) }
}

const fn system(name: &'static str, about: &'static str, run: fn(&mut Bench, u64) -> Result<Outcome>) -> Test {
    Test { name, about, body: Body::System(run) }
}

/// Where item `item` of the kernel `walk` is after so many steps: for walks of any length.
#[must_use]
pub fn walk_result(item: u32, steps: u32) -> u32 {
    integer::walk_result(item, steps)
}

/// All tests of the suite.
pub const ALL: &[Test] = &[
    kernel("vadd", "sum of two vectors in video memory", float::vadd),
    kernel("saxpy", "scaled vector added in place", float::saxpy),
    kernel("fill", "pattern written to memory of the process", integer::fill),
    kernel("reduce", "sums with local memory and barriers", float::reduce),
    kernel("matmul", "matrix product in tiles", matrix::matmul),
    kernel("softmax", "exponentials and two reductions for each row", float::softmax),
    kernel("histogram", "atomics on few addresses", integer::histogram),
    kernel("transpose", "tiles turned in local memory, odd sizes", matrix::transpose),
    kernel("spin", "a long loop", float::spin),
    kernel("exactly_once", "every workgroup runs once", integer::exactly_once),
    kernel("walk", "a long loop in which every step counts", integer::walk),
    kernel("advance", "steps that move a value, remembered over many kernels", float::advance),
    kernel("counter", "atomics that all lanes contend for", integer::counter),
    kernel("wide", "64-bit integers, doubles, divisions", integer::wide),
    kernel("scratch", "private arrays indexed by data", integer::scratch),
    kernel("tables", "addresses that the loader writes", integer::tables),
    kernel("narrow", "half and bfloat16 conversions", float::narrow),
    kernel("mfma_f32", "matrix cores, single precision", matrix::mfma_f32),
    kernel("mfma_i8", "matrix cores, bytes", matrix::mfma_i8),
    system("copy", "copy engine: to video memory, within it, and back", system::copy),
    system("barrier", "a kernel that waits for another queue", system::barrier),
    system("ring", "more packets than the ring holds", system::ring),
];

/// Returns a test by its name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Test> {
    ALL.iter().find(|test| test.name == name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use kfd_runtime::CodeObject;

    #[test]
    fn names_are_unique() {
        let names: BTreeSet<_> = ALL.iter().map(|test| test.name).collect();
        assert_eq!(names.len(), ALL.len());
    }

    #[test]
    fn every_job_finds_its_kernel_and_fills_its_arguments() {
        for test in ALL {
            let Some(job) = test.job(7) else { continue };
            let object = CodeObject::parse(job.object).expect(test.name);
            let kernel = object.kernels().iter().find(|kernel| kernel.name == job.kernel).expect(test.name);
            assert_eq!(job.argument_bytes(), kernel.argument_bytes as usize, "{}", test.name);
            let mut buffers = job.arguments.iter().filter_map(Argument::buffer);
            assert!(buffers.any(|buffer| buffer.expected.is_some()), "{} checks nothing", test.name);
            let group: u32 = job.launch.group.iter().map(|&size| u32::from(size)).product();
            assert!((1..=1024).contains(&group), "{}", test.name);
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_job_and_another_does_not() {
        for test in ALL {
            let (Some(one), Some(again)) = (test.job(1), test.job(1)) else { continue };
            assert_eq!(one, again, "{}", test.name);
        }
        assert_ne!(float::vadd(1), float::vadd(2));
    }

    /// A job whose outputs already hold the result before the kernel ran would pass without a gpu.
    #[test]
    fn no_job_is_right_before_it_ran() {
        for test in ALL {
            let Some(job) = test.job(3) else { continue };
            let buffers = job.arguments.iter().filter_map(Argument::buffer);
            let mut checked = buffers.filter(|buffer| buffer.expected.is_some());
            assert!(checked.all(|buffer| buffer.compare(0, &buffer.contents).is_some()), "{}", test.name);
        }
    }
}
