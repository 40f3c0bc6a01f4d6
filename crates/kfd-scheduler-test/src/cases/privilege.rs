//! Who may set and see what.

use std::env;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use anyhow::{Result, bail, ensure};
use gpreempt_kernel_abi::{Argument, CLEAR, Claim, DEVICE, JobArgs, ModuleSettings, QueryArgs, QueryKind, Request};

use crate::Options;
use crate::control::{Control, POLLING, at_level};

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

/// Is a process that opens the device, gives up its privilege and tries what needs it.
pub(crate) fn be(way: &str) -> Result<()> {
    let control = Control::open()?;
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
    let expected = if may { Ok(()) } else { Err(libc::EPERM) };
    let query = QueryArgs { kind: QueryKind::GPUS, ..QueryArgs::SIZED };
    ensure!(control.call(&mut { query }) == expected, "{way}: QUERY");
    ensure!(control.events().is_ok() == may, "{way}: events");
    ensure!(control.call(&mut Claim { keep_ms: 1, ..Claim::SIZED }) == expected, "{way}: CLAIM");
    ensure!(control.call(&mut POLLING.clone()) == expected, "{way}: SETTINGS");
    ensure!(control.version().is_ok(), "{way}: VERSION");
    if way == "user" {
        ensure!(OpenOptions::new().read(true).open(DEVICE).is_err(), "{way}: it opens the device");
    }
    Ok(())
}

pub(super) fn capabilities_are_needed(_: &Options) -> Result<()> {
    let mode = std::fs::metadata(DEVICE)?.permissions().mode() & 0o777;
    ensure!(mode == 0o600, "{DEVICE} has mode {mode:o}");
    for way in ["user", "none", "namespace", "nice"] {
        let status = Command::new(env::current_exe()?).args(["less", way]).status()?;
        ensure!(status.success(), "{way}: {status}");
    }
    Ok(())
}

pub(super) fn only_the_policy_host_sets(_: &Options) -> Result<()> {
    let host = Control::host(POLLING)?;
    let other = Control::open()?;
    ensure!(other.call(&mut Claim { keep_ms: 1, ..Claim::SIZED }) == Err(libc::EBUSY), "there are two hosts");
    let job = JobArgs { job: 1, params: at_level(1), ..JobArgs::SIZED };
    ensure!(other.call(&mut { job }) == Err(libc::EPERM), "another sets a job");
    ensure!(other.call(&mut ModuleSettings::clone(&POLLING)) == Err(libc::EPERM), "another sets settings");
    let Request(clear) = CLEAR.request();
    ensure!(other.raw(clear, 0) == Err(libc::EPERM), "another clears");
    ensure!(other.gpus().is_ok() && other.events().is_ok(), "another cannot look");
    // A copy of the descriptor is the same host.
    let copy = Control(host.0.try_clone()?);
    drop(host);
    ensure!(copy.call(&mut { job }) == Ok(()), "the copy is not the host");
    ensure!(other.call(&mut Claim { keep_ms: 1, ..Claim::SIZED }) == Err(libc::EBUSY), "the copy is no host");
    drop(copy);
    // A descriptor that cannot write.
    let reader = Control(OpenOptions::new().read(true).open(DEVICE)?);
    ensure!(reader.call(&mut Claim { keep_ms: 1, ..Claim::SIZED }) == Err(libc::EPERM), "a reader claims");
    ensure!(other.call(&mut Claim { keep_ms: 60_000, ..Claim::SIZED }) == Ok(()), "it is free now");
    ensure!(other.jobs()?.len() == 1, "the policy was not kept");
    ensure!(JobArgs::COMMAND.nr == 5, "the number of SET_JOB");
    Ok(())
}
