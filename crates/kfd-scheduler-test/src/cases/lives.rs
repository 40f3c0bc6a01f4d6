//! Policy hosts come and go.

use std::env;
use std::io::{BufRead, BufReader, Write, stdin, stdout};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use gpreempt_kernel_abi::{Claim, ModuleEventKind};

use super::until;
use crate::Options;
use crate::control::{Control, POLLING};
use crate::tenant::Tenant;

const JOB: u64 = 31;

/// Is a policy host: all processes are one job, which is held.
pub(crate) fn be_host(keep_ms: u32, pids: &[u32]) -> Result<()> {
    let control = Control::host(POLLING)?;
    control.must(&mut Claim { keep_ms, ..Claim::SIZED })?;
    control.hold(JOB, 3, 600_000)?;
    for &pid in pids {
        control.process(pid, JOB)?;
    }
    println!("ready");
    stdout().flush()?;
    // Until it is killed, or the test ends.
    stdin().read_line(&mut String::new())?;
    Ok(())
}

/// Starts a policy host for a tenant, and waits until it has done its work.
pub(super) fn start_host(keep_ms: u32, pids: &[u32]) -> Result<Child> {
    let words = std::iter::once(keep_ms).chain(pids.iter().copied()).map(|number| number.to_string());
    let mut child = Command::new(env::current_exe()?)
        .arg("host")
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start a policy host")?;
    let mut line = String::new();
    BufReader::new(child.stdout.take().context("a host without output")?).read_line(&mut line)?;
    ensure!(line.trim_end() == "ready", "the host said `{line}`");
    Ok(child)
}

fn end(mut host: Child) -> Result<()> {
    host.kill()?;
    host.wait()?;
    Ok(())
}

pub(super) fn the_policy_is_kept_for_a_while(_: &Options) -> Result<()> {
    let watcher = Control::open()?;
    let mut tenant = Tenant::start()?;
    tenant.send(1000, 5000)?;
    let host = start_host(400, &[tenant.pid()])?;
    let stopped =
        || Ok::<bool, anyhow::Error>(watcher.tenant(tenant.pid())?.is_some_and(|tenant| tenant.stopped_queues > 0));
    until("it is held", stopped)?;
    watcher.events()?;
    end(host)?;
    sleep(Duration::from_millis(200));
    ensure!(stopped()?, "it was resumed before its time");
    until("the policy has expired", || Ok(!stopped()?))?;
    let events = watcher.events()?;
    ensure!(events.iter().any(|event| event.kind == ModuleEventKind::EXPIRED), "that was not told: {events:?}");
    ensure!(watcher.jobs()?.is_empty(), "there are jobs");
    tenant.must_progress()
}

pub(super) fn another_host_takes_over(_: &Options) -> Result<()> {
    let mut tenant = Tenant::start()?;
    tenant.send(1000, 5000)?;
    let host = start_host(300, &[tenant.pid()])?;
    let next = Control::open()?;
    let stopped =
        || Ok::<bool, anyhow::Error>(next.tenant(tenant.pid())?.is_some_and(|tenant| tenant.stopped_queues > 0));
    until("it is held", stopped)?;
    end(host)?;
    next.must(&mut Claim { keep_ms: 60_000, ..Claim::SIZED })?;
    sleep(Duration::from_millis(600));
    ensure!(stopped()? && next.jobs()?.len() == 1, "the policy was not kept for the next host");
    next.clear()?;
    ensure!(!stopped()?, "CLEAR resumes only later");
    tenant.must_progress()?;
    // Without a time to keep it, the policy ends with the host.
    drop(next);
    let host = start_host(0, &[tenant.pid()])?;
    until("it is held again", || {
        Ok(Control::open()?.tenant(tenant.pid())?.is_some_and(|tenant| tenant.stopped_queues > 0))
    })?;
    end(host)?;
    tenant.must_progress()
}
