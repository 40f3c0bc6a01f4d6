//! Programs that do what they must not, and programs that are stopped: what their runtime gets to see.
//!
//! Each test starts itself again on the virtual gpu and does its work there.

use std::time::Duration;

use gpreempt_testkit::{ThisTest, this_test};
use kfd_runtime::{Arguments, Buffer, CodeObject, Error, Executable, GpuAddr, Launch, Order, Placement, Queue};
use kfd_runtime::{Result, Runtime, Signal};
use kfd_suite::suite;

pub(super) const LIMIT: Duration = Duration::from_secs(60);

/// Runs `body` on the virtual gpu: in another process, unless this one is on it already.
pub(super) fn on_the_gpu(test: ThisTest, body: fn() -> Result<()>) {
    if std::env::var_os("GPREEMPT_VGPU").is_some() {
        body().expect("the program works");
        return;
    }
    let own = std::env::current_exe().expect("this test is a program");
    let own = own.to_str().expect("a path of text");
    let output = super::on_vgpu(&[own, "--exact", test.name(), "--nocapture", "--include-ignored"])
        .output()
        .expect("can be started");
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

/// Starts `fill` with a destination of our choice; it completes `done`. `place` puts its arguments where the gpu finds
/// them.
pub(super) fn start_fill_from(
    queue: &mut Queue,
    to: GpuAddr,
    items: u32,
    done: &Signal,
    place: impl FnOnce(&[u8]) -> Result<GpuAddr>,
) -> Result<Executable> {
    let job = suite::find("fill").and_then(|test| test.job(1)).expect("in the suite");
    let program = Executable::load(queue, &CodeObject::parse(job.object)?)?;
    let kernel = program.kernel(job.kernel)?;
    let block = Arguments::default().address(to).u32(0).u32(items).block(kernel.argument_bytes);
    let arguments = place(&block)?;
    queue.dispatch(&kernel, arguments, &Launch::linear(items.div_ceil(256), 256), Order::AfterPrevious, done)?;
    Ok(program)
}

/// Starts `fill` with arguments in a buffer.
pub(super) fn start_fill(queue: &mut Queue, to: GpuAddr, items: u32, done: &Signal) -> Result<(Executable, Buffer)> {
    let mut arguments = queue.device().allocate(4096, Placement::Gtt)?;
    let program = start_fill_from(queue, to, items, done, |block| {
        arguments.write(0, block)?;
        Ok(arguments.address())
    })?;
    Ok((program, arguments))
}

/// A kernel writes where nothing is mapped; the program is told which page that was.
fn write_outside_any_mapping() -> Result<()> {
    let runtime = Runtime::open()?;
    let mut queue = Queue::new(runtime.device(0)?)?;
    let done = Signal::new(queue.device(), 1)?;
    let nowhere = GpuAddr(0x1234_5678_9000);
    let _kept = start_fill(&mut queue, nowhere, 512, &done)?;
    match queue.wait(&done, LIMIT) {
        Err(Error::MemoryFault { address, .. }) => assert_eq!(address, nowhere),
        other => panic!("expected a fault, got {other:?}"),
    }
    assert_eq!(done.value()?, 1, "a kernel that faulted has not completed");
    Ok(())
}

#[test]
fn an_access_outside_any_mapping_is_reported_with_its_page() {
    on_the_gpu(this_test!(), write_outside_any_mapping);
}

#[test]
fn a_fault_is_reported_even_if_nothing_can_be_said_about_it() {
    if std::env::var_os("GPREEMPT_VGPU").is_some() {
        return write_outside_any_mapping().expect("the program works");
    }
    let own = std::env::current_exe().expect("this test is a program");
    let full = std::fs::File::options().write(true).open("/dev/full").expect("every Linux has it");
    let words = [own.to_str().expect("a path of text"), "--exact", this_test!().name(), "--nocapture"];
    let output = super::on_vgpu(&words).stderr(full).output().expect("can be started");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{}: {text}", output.status);
}

#[test]
fn an_access_beyond_the_end_of_a_buffer_stops_the_kernel_there() {
    on_the_gpu(this_test!(), || {
        let runtime = Runtime::open()?;
        let mut queue = Queue::new(runtime.device(0)?)?;
        let buffer = queue.device().allocate(4096, Placement::Vram)?;
        let done = Signal::new(queue.device(), 1)?;
        // One page of words, and one workgroup more.
        let _kept = start_fill(&mut queue, buffer.address(), 1024 + 256, &done)?;
        let beyond = GpuAddr(buffer.address().0 + 4096);
        match queue.wait(&done, LIMIT) {
            Err(Error::MemoryFault { address, .. }) => assert_eq!(address, beyond),
            other => panic!("expected a fault, got {other:?}"),
        }
        Ok(())
    });
}

#[test]
fn another_process_is_not_harmed_by_a_fault() {
    // The faulting program and a healthy one run one after the other in one process tree, on one supervisor.
    let own = std::env::current_exe().expect("this test is a program");
    let own = own.to_str().expect("a path of text");
    let script = format!(
        "{own} --exact faults::an_access_outside_any_mapping_is_reported_with_its_page >/dev/null 2>&1 & \
         gpreempt selftest --kernel vadd --kernel spin --json; code=$?; wait; exit $code"
    );
    let printed = super::shell(&script);
    assert!(printed.contains("\"failed\": 0"), "{printed}");
}

#[test]
fn code_that_is_no_instruction_stops_the_queue_and_is_named() {
    on_the_gpu(this_test!(), || {
        let runtime = Runtime::open()?;
        let mut queue = Queue::new(runtime.device(0)?)?;
        let job = suite::find("fill").and_then(|test| test.job(1)).expect("in the suite");
        // The same program, but every instruction is bits that no format has.
        let mut broken = job.object.to_vec();
        let text = text_section(&broken);
        broken[text].fill(0xFF);
        let program = Executable::load(&mut queue, &CodeObject::parse(&broken)?)?;
        let kernel = program.kernel(job.kernel)?;
        let arguments = queue.device().allocate(256, Placement::Gtt)?;
        let done = Signal::new(queue.device(), 1)?;
        queue.dispatch(&kernel, arguments.address(), &Launch::linear(1, 64), Order::AfterPrevious, &done)?;
        match queue.wait(&done, LIMIT) {
            Err(Error::Queue { .. }) => Ok(()),
            other => panic!("expected the queue to stop, got {other:?}"),
        }
    });
}

fn text_section(file: &[u8]) -> std::ops::Range<usize> {
    use object::{Object, ObjectSection};
    let parsed = object::File::parse(file).expect("an ELF file");
    let section = parsed.section_by_name(".text").expect("has code");
    let (start, length) = section.file_range().expect("in the file");
    start as usize..(start + length) as usize
}
