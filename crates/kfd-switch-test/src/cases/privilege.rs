//! Who may switch whom.

use std::env;
use std::io;
use std::process::Command;

use anyhow::{Result, bail, ensure};

use crate::Options;
use crate::interface::{PREEMPT, RESUME};
use crate::sched::{Sched, all};
use crate::tenant::Tenant;

const GUEST: libc::uid_t = 1000;
const CAP_SYS_NICE: u32 = 23;

fn checked(result: libc::c_long) -> Result<()> {
    if result < 0 { Err(io::Error::last_os_error().into()) } else { Ok(()) }
}

/// Gives up all capabilities but those of a mask.
fn keep_capabilities(mask: u64) -> Result<()> {
    let header = [0x2008_0522_u32, 0];
    let (low, high) = (mask as u32, (mask >> 32) as u32);
    let data = [low, low, 0, high, high, 0];
    // SAFETY: version 3 of the structures: a header of two words and twice three words of data.
    checked(unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), data.as_ptr()) })
}

/// Is a process that gives up its privilege and then tries to stop another one, and itself.
pub(crate) fn be(way: &str, victim: u32) -> Result<()> {
    // The device may be opened by root alone.
    let sched = Sched::new()?;
    let runtime = kfd_runtime::Runtime::open()?;
    let queue = kfd_runtime::Queue::new(runtime.device(0)?)?;
    let may = match way {
        "user" => {
            // SAFETY: changes the identity of this process.
            checked(unsafe { libc::setresuid(GUEST, GUEST, GUEST) }.into())?;
            false
        }
        "nice" => {
            keep_capabilities(1 << CAP_SYS_NICE)?;
            true
        }
        "none" => {
            keep_capabilities(0)?;
            false
        }
        "namespace" => {
            // SAFETY: gives this process a user namespace of its own, with all capabilities in it.
            checked(unsafe { libc::unshare(libc::CLONE_NEWUSER) }.into())?;
            false
        }
        _ => bail!("unknown way `{way}`"),
    };
    let pid = std::process::id();
    let status = sched.status(all(victim, PREEMPT))?;
    ensure!(status == if may { 0 } else { -libc::EPERM }, "{way}: another process: {status}");
    ensure!(sched.queues(victim)?.is_empty() != may, "{way}: queues of another process");
    let listed = sched.queues(0)?;
    ensure!(listed.len() == if may { 2 } else { 1 }, "{way}: {} queues are listed", listed.len());
    let done = sched.must(&[all(pid, PREEMPT)])?;
    ensure!(done.changed == 1, "{way}: own queue: {done:?}");
    sched.must(&[all(pid, RESUME)])?;
    drop(queue);
    Ok(())
}

fn case(way: &str) -> Result<()> {
    let mut victim = Tenant::start(1)?;
    let pid = victim.pid().to_string();
    let status = Command::new(env::current_exe()?).args(["less", way, &pid]).status()?;
    ensure!(status.success(), "{way}: {status}");
    victim.must_run()
}

pub(super) fn an_unprivileged_user_has_its_own(_: &Options) -> Result<()> {
    case("user")?;
    case("none")
}

pub(super) fn nice_is_enough(_: &Options) -> Result<()> {
    case("nice")
}

pub(super) fn a_user_namespace_is_not_enough(_: &Options) -> Result<()> {
    case("namespace")
}
