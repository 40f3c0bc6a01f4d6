//! The offline program: kernels that fill the gpu, one after the other without a pause.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anyhow::{Context, Result, ensure};
use kfd_runtime::{Runtime, Signal};
use kfd_suite::chain::{self, Chain, Work};
use linux_host::clock::monotonic_ns;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal as UnixSignal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

use super::LoadOffline;
use super::{End, LOST, Line, say};

pub(super) fn run(options: &LoadOffline, out: &mut impl Write) -> Result<()> {
    let end = watch_for_end()?;
    let runtime = Runtime::open()?;
    let device = runtime.device(0)?;
    let groups = options.groups.unwrap_or_else(|| chain::groups_to_fill(device));
    let work = Work { groups, steps: options.steps };
    ensure!(work.groups > 0, "--groups has to be at least 1");
    let mut chain = Chain::new(device, work, options.depth)?;
    let signals: Vec<Signal> = (0..options.depth).map(|_| Signal::new(device, 0)).collect::<Result<_, _>>()?;
    let most = options.kernels.unwrap_or(u32::MAX);
    let wanted = |submitted: u32| submitted < most && !end.load(Ordering::Relaxed);
    say(&Line::Ready { groups: work.groups }, out)?;
    let mut ended = 0;
    loop {
        // Never idle: while the oldest runs, the others wait behind it in the ring.
        while chain.submitted() - ended < options.depth && wanted(chain.submitted()) {
            let signal = &signals[(chain.submitted() % options.depth) as usize];
            signal.set(1)?;
            chain.submit(Some(signal))?;
        }
        if ended == chain.submitted() {
            break;
        }
        chain.wait(&signals[(ended % options.depth) as usize], LOST)?;
        say(&Line::Kernel { kernel: ended, ended_ns: monotonic_ns() }, out)?;
        ended += 1;
    }
    say(&Line::End(End::of(&chain, work)?), out)
}

/// Becomes true when the standard input is closed or SIGTERM comes.
fn watch_for_end() -> Result<Arc<AtomicBool>> {
    let mut signals = SigSet::empty();
    signals.add(UnixSignal::SIGTERM);
    signals.thread_block().context("cannot block SIGTERM")?;
    let descriptor = SignalFd::with_flags(&signals, SfdFlags::SFD_CLOEXEC).context("cannot wait for SIGTERM")?;
    let end = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&end);
    thread::spawn(move || {
        await_end(descriptor.as_fd());
        told.store(true, Ordering::Relaxed);
    });
    Ok(end)
}

fn await_end(signals: BorrowedFd<'_>) {
    let mut stdin = io::stdin().lock();
    loop {
        let input = io::stdin();
        let mut watched = [PollFd::new(signals, PollFlags::POLLIN), PollFd::new(input.as_fd(), PollFlags::POLLIN)];
        if poll(&mut watched, PollTimeout::NONE).is_err_and(|error| error != nix::errno::Errno::EINTR) {
            return;
        }
        if watched[0].any() == Some(true) {
            return;
        }
        if watched[1].any() == Some(true) && matches!(stdin.read(&mut [0; 256]), Ok(0) | Err(_)) {
            return;
        }
    }
}
