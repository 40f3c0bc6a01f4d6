//! The jobs of the self test, in process and on the committed objects.

use kfd_runtime::{Arguments, CodeObject, GpuAddr};
use kfd_suite::suite::{ALL, Argument, Job};

use crate::rig::{PreemptionPattern, Rig};

/// Runs a job on a rig for so many bytes; what is wrong with it.
pub(crate) fn wrong(
    job: &Job,
    rig: impl FnOnce(usize) -> Rig,
    preemptions: &mut dyn PreemptionPattern,
) -> Option<String> {
    let object = CodeObject::parse(job.object).unwrap();
    let buffers = || job.arguments.iter().filter_map(Argument::buffer);
    let bytes: usize = buffers().map(|buffer| buffer.contents.len()).sum();
    let mut rig = rig(object.size() + bytes);
    let mut places = Vec::new();
    let mut arguments = Arguments::default();
    for argument in &job.arguments {
        arguments = match argument {
            Argument::U32(value) => arguments.u32(*value),
            Argument::F32(value) => arguments.f32(*value),
            Argument::Buffer(buffer) => {
                let at = rig.place(&buffer.contents);
                places.push(at);
                arguments.address(GpuAddr(at))
            }
        };
    }
    if let Err(error) = rig.dispatch(preemptions, &object, job.kernel, &job.launch, arguments, 0) {
        return Some(error);
    }
    let mut results = buffers().zip(places).enumerate();
    let found = results.find_map(|(index, (buffer, at))| buffer.compare(index, &rig.read(at, buffer.contents.len())));
    found.map(|mismatch| mismatch.to_string())
}

#[test]
fn every_job_of_the_self_test_has_its_results() {
    let mut failures = Vec::new();
    for test in ALL {
        for seed in [1, 2] {
            let Some(job) = test.job(seed) else { continue };
            let said = wrong(&job, |bytes| Rig::new(bytes, crate::quantum(seed)), &mut ());
            failures.extend(said.map(|said| format!("{} seed {seed}: {said}", test.name)));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
