//! The cases: each is a sentence that it shows, and a function that fails if it is not so.

mod cycles;
mod hangs;
mod life;
mod owners;
mod privilege;
mod rules;
mod states;
mod storm;

use anyhow::Result;

pub(crate) use owners::be_owner;
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
    rules: unused_numbers_are_refused, opening_is_checked, arguments_are_checked, entries_are_checked,
        start_times_are_compared, sizes_are_versions;
    cycles: a_switch_is_one_cycle, what_changes_nothing_costs_nothing, one_queue_of_many, a_late_switch_is_not_begun;
    states: queues_are_listed, born_preempted, a_process_without_queues, evicted_queues_stay_off,
        a_debugger_is_independent;
    life: a_preempted_queue_is_destroyed_at_once, a_preempted_process_is_killed;
    privilege: an_unprivileged_user_has_its_own, nice_is_enough, a_user_namespace_is_not_enough;
    owners: closing_resumes, a_copy_keeps_the_stop, two_owners, the_owner_is_killed;
    storm: all_at_once;
    hangs: a_reset_queue_stays_off, a_failed_cycle_is_undone;
}
