//! Everything at once, for races: owners and tenants that are killed while others switch.

use std::env;
use std::process::{Child, Command};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::firmware::await_no_queue;
use crate::interface::PREEMPTED;
use crate::sched::Sched;
use crate::tenant::Tenant;
use crate::{Options, report};

/// Starts an owner that switches until it is killed.
fn owner(tenants: &[Tenant]) -> Result<Child> {
    let pids = tenants.iter().take(3).map(|tenant| tenant.pid().to_string());
    // A step that does not exist: it switches for ever.
    Ok(Command::new(env::current_exe()?)
        .args(["owner", "99"])
        .args(pids)
        .stderr(std::process::Stdio::null())
        .spawn()?)
}

fn end(mut owner: Child) -> Result<()> {
    let killed = owner.kill();
    owner.wait()?;
    Ok(killed?)
}

pub(super) fn all_at_once(options: &Options) -> Result<()> {
    let watch = Sched::new()?;
    let mut tenants = (0..4).map(|_| Tenant::start(2)).collect::<Result<Vec<_>>>()?;
    let mut owners = vec![owner(&tenants)?];
    for round in 0..options.rounds {
        sleep(Duration::from_millis(u64::from(round * 7 % 13)));
        tenants.push(Tenant::start(1 + round as usize % 3)?);
        let victim = round as usize % tenants.len();
        tenants.remove(victim).kill()?;
        watch.queues(0)?;
        // An owner fails when a tenant of its list is gone: there is always a new one.
        owners.push(owner(&tenants)?);
        if owners.len() > 2 {
            end(owners.remove(0))?;
        }
    }
    owners.into_iter().try_for_each(end)?;
    let states = watch.queues(0)?;
    ensure!(states.iter().all(|queue| !queue.flags.has(PREEMPTED)), "something stays stopped: {states:?}");
    for tenant in &mut tenants {
        tenant.must_run().context("after the storm")?;
    }
    drop(tenants);
    report("rounds", options.rounds.into());
    await_no_queue()
}
