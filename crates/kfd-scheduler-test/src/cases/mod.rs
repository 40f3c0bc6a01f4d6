//! The cases: each is a sentence that it shows, and a function that fails if it is not so.

mod deaths;
mod hostile;
mod interface;
mod lives;
mod policy;
mod privilege;
mod switching;

use std::thread::sleep;
use std::time::Duration;

use anyhow::{Result, bail};

pub(crate) use deaths::Random;
pub(crate) use lives::be_host;
pub(crate) use privilege::be as be_less;

use crate::Options;

/// A case.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) run: fn(&Options) -> Result<()>,
}

/// Makes the table: the name of a case is that of its function.
macro_rules! cases {
    ($($module:ident: $($name:ident),+;)*) => {
        pub(crate) const ALL: &[Case] = &[$($(Case { name: stringify!($name), run: $module::$name }),+),*];
    };
}

cases! {
    switching: requests_stop_packets_by_polling, requests_stop_packets_by_doorbell, nothing_contends_nothing_wakes,
        idle_tenants_are_not_looked_at, a_job_stops_on_all_its_gpus;
    policy: levels_change_at_run_time, a_job_is_held_and_released, holds_are_one_switch_each, observe_mode_only_tells,
        a_cgroup_is_a_job, a_job_ends, processes_are_told_apart, without_room_nothing_is_managed;
    interface: arguments_are_checked, queries_and_events_tell_what_happened, slow_readers_lose_the_oldest;
    privilege: only_the_policy_host_sets, capabilities_are_needed;
    lives: the_policy_is_kept_for_a_while, another_host_takes_over;
    deaths: tenants_are_killed, hosts_are_killed, the_module_goes_under_load, a_reset_is_survived,
        a_worker_that_hangs_is_overruled;
    hostile: rings_are_rewritten, indices_are_unmapped, indices_are_protected, faults_are_never_resolved,
        pages_are_absent, there_are_255_queues, calls_are_random;
}

/// Waits until something becomes true.
fn until(what: &str, mut condition: impl FnMut() -> Result<bool>) -> Result<()> {
    for _ in 0..1000 {
        if condition()? {
            return Ok(());
        }
        sleep(Duration::from_millis(10));
    }
    bail!("{what} does not come true");
}
