//! Events of a process: create, set, wait.

use kfd_abi::Abi;
use kfd_abi::event::{
    CreateEventArgs, DestroyEventArgs, EventData, EventType, ResetEventArgs, SetEventArgs, TIMEOUT_IMMEDIATE,
    WaitEventsArgs, WaitResult,
};
use kfd_abi::memory::{MmapKind, MmapOffset};

use super::NOWHERE;
use super::session::returns;
use crate::actor::{PATIENCE, Reply, encode};
use crate::bench::{Bench, Client, WATCH};
use crate::rule::driver_rules;
use crate::verdict::{Verdict, equal, require};

// tidy: table
driver_rules! { Driver:
    "event-signal" signal, "kfd_events.c: kfd_event_create, create_signal_event",
        "A signal event has an id from 1 on, which is its slot and its trigger, and a page at an offset of kind 2.";
    "event-other" other, "kfd_events.c: create_other_event",
        "Events of other kinds have ids from 0x40000000 on and no page.";
    "event-set-wait" set_wait, "kfd_events.c: kfd_set_event, kfd_wait_on_events",
        "An event that was set ends a wait at once, with result 0.";
    "event-timeout" timeout, "kfd_events.c: kfd_wait_on_events",
        "A wait whose time is up succeeds with result 1.";
    "event-auto-reset" auto_reset, "kfd_events.c: init_event_waiter, set_event",
        "An event that resets itself ends one wait only; another stays set until RESET_EVENT.";
    "event-set-wakes" set_wakes, "kfd_events.c: set_event",
        "SET_EVENT ends a wait that has begun.";
    "event-wait-all" wait_all, "kfd_events.c: test_event_condition",
        "A wait for all events ends when the last is set; one for any, with the first.";
    "event-set-other" set_other, "kfd_events.c: kfd_set_event, event_can_be_cpu_signaled",
        "Only signal events can be set by a program; others are answered with EINVAL.";
    "event-unknown" unknown, "kfd_events.c: lookup_event_by_id",
        "Calls about an unknown event are answered with EINVAL.";
    "event-bad-list" bad_list, "kfd_events.c: kfd_wait_on_events",
        "A wait for a list that cannot be read is answered with EFAULT.";
    "event-destroyed" destroyed, "kfd_events.c: destroy_event, kfd_wait_on_events",
        "Destroying an event ends a wait for it with EIO.";
}

fn create(client: &mut Client, event_type: EventType, auto_reset: u32) -> Verdict<CreateEventArgs> {
    let args = CreateEventArgs { event_type, auto_reset, ..CreateEventArgs::default() };
    client.call(args)?.ok("CREATE_EVENT")
}

fn signal_event(client: &mut Client, auto_reset: u32) -> Verdict<u32> {
    create(client, EventType::SIGNAL, auto_reset).map(|args| args.event_id)
}

fn set(client: &mut Client, event_id: u32) -> Verdict<Reply<SetEventArgs>> {
    client.call(SetEventArgs { event_id, pad: 0 })
}

fn wait_args(client: &mut Client, events: &[u32], all: bool, timeout: u32) -> Verdict<WaitEventsArgs> {
    let events_ptr = client.actor.memory(4096)?;
    let entries = events.iter().map(|id| EventData { event_id: *id, ..EventData::default() });
    client.actor.write(events_ptr, entries.flat_map(|entry| encode(&entry)).collect())?;
    let num_events = events.len() as u32;
    Ok(WaitEventsArgs { events_ptr, num_events, wait_for_all: all.into(), timeout, wait_result: WaitResult(7) })
}

/// Looks whether events are set.
fn look(client: &mut Client, events: &[u32], all: bool) -> Verdict<WaitResult> {
    let args = wait_args(client, events, all, TIMEOUT_IMMEDIATE)?;
    Ok(client.call(args)?.ok("WAIT_EVENTS")?.wait_result)
}

fn signal(bench: &Bench<'_>) -> Verdict {
    let mut client = bench.client()?;
    let args = create(&mut client, EventType::SIGNAL, 0)?;
    equal("first id", args.event_id, 1)?;
    equal("slot and trigger", (args.event_slot_index, args.event_trigger_data), (1, 1))?;
    let offset = MmapOffset(args.event_page_offset);
    equal(&format!("offset {:#x}", offset.0), offset, MmapOffset::new(MmapKind::EVENTS, 0))
}

fn other(bench: &Bench<'_>) -> Verdict {
    let mut client = bench.client()?;
    let args = create(&mut client, EventType::HW_EXCEPTION, 0)?;
    equal("id and offset", (args.event_id, args.event_page_offset), (0x4000_0000, 0))
}

fn set_wait(bench: &Bench<'_>) -> Verdict {
    let mut client = bench.client()?;
    let event = signal_event(&mut client, 0)?;
    equal("result before", look(&mut client, &[event], true)?, WaitResult::TIMEOUT)?;
    set(&mut client, event)?.ok("SET_EVENT")?;
    equal("result after", look(&mut client, &[event], true)?, WaitResult::COMPLETE)
}

fn timeout(bench: &Bench<'_>) -> Verdict {
    let mut client = bench.client()?;
    let event = signal_event(&mut client, 0)?;
    let args = wait_args(&mut client, &[event], true, 20)?;
    equal("result", client.call(args)?.ok("WAIT_EVENTS")?.wait_result, WaitResult::TIMEOUT)
}

fn auto_reset(bench: &Bench<'_>) -> Verdict {
    let mut client = bench.client()?;
    let (once, stays) = (signal_event(&mut client, 1)?, signal_event(&mut client, 0)?);
    for event in [once, stays] {
        set(&mut client, event)?.ok("SET_EVENT")?;
        equal("first look", look(&mut client, &[event], true)?, WaitResult::COMPLETE)?;
    }
    equal("one that resets itself", look(&mut client, &[once], true)?, WaitResult::TIMEOUT)?;
    equal("one that does not", look(&mut client, &[stays], true)?, WaitResult::COMPLETE)?;
    client.call(ResetEventArgs { event_id: stays, pad: 0 })?.ok("RESET_EVENT")?;
    equal("after RESET_EVENT", look(&mut client, &[stays], true)?, WaitResult::TIMEOUT)
}

/// Begins a wait and requires that it does not end by itself.
fn begin_wait(client: &mut Client, events: &[u32], all: bool) -> Verdict {
    let args = wait_args(client, events, all, 8000)?;
    let kfd = client.kfd;
    client.actor.begin(kfd, args)?;
    require(client.actor.result(WATCH)?.is_none(), "the wait ended before the event was set")
}

fn set_wakes(bench: &Bench<'_>) -> Verdict {
    let mut client = bench.client()?;
    let event = signal_event(&mut client, 1)?;
    begin_wait(&mut client, &[event], false)?;
    set(&mut client, event)?.ok("SET_EVENT")?;
    returns(&mut client, "WAIT_EVENTS", PATIENCE, "success (0)")
}

fn wait_all(bench: &Bench<'_>) -> Verdict {
    let mut client = bench.client()?;
    let events = [signal_event(&mut client, 0)?, signal_event(&mut client, 0)?];
    set(&mut client, events[0])?.ok("SET_EVENT")?;
    equal("all, with one set", look(&mut client, &events, true)?, WaitResult::TIMEOUT)?;
    equal("any, with one set", look(&mut client, &events, false)?, WaitResult::COMPLETE)?;
    set(&mut client, events[1])?.ok("SET_EVENT")?;
    equal("all, with both set", look(&mut client, &events, true)?, WaitResult::COMPLETE)
}

fn set_other(bench: &Bench<'_>) -> Verdict {
    let mut client = bench.client()?;
    let event = create(&mut client, EventType::MEMORY, 0)?.event_id;
    set(&mut client, event)?.fails("SET_EVENT of a memory event", libc::EINVAL).map(drop)
}

fn unknown(bench: &Bench<'_>) -> Verdict {
    let mut client = bench.client()?;
    set(&mut client, 99)?.fails("SET_EVENT", libc::EINVAL)?;
    client.call(ResetEventArgs { event_id: 99, pad: 0 })?.fails("RESET_EVENT", libc::EINVAL)?;
    client.call(DestroyEventArgs { event_id: 99, pad: 0 })?.fails("DESTROY_EVENT", libc::EINVAL)?;
    let args = wait_args(&mut client, &[99], true, TIMEOUT_IMMEDIATE)?;
    client.call(args)?.fails("WAIT_EVENTS", libc::EINVAL).map(drop)
}

fn bad_list(bench: &Bench<'_>) -> Verdict {
    let args = WaitEventsArgs { events_ptr: NOWHERE, num_events: 1, ..WaitEventsArgs::ZERO };
    bench.client()?.call(args)?.fails("WAIT_EVENTS", libc::EFAULT).map(drop)
}

fn destroyed(bench: &Bench<'_>) -> Verdict {
    let mut client = bench.client()?;
    let event = signal_event(&mut client, 0)?;
    begin_wait(&mut client, &[event], false)?;
    client.call(DestroyEventArgs { event_id: event, pad: 0 })?.ok("DESTROY_EVENT")?;
    returns(&mut client, "WAIT_EVENTS", PATIENCE, "EIO")
}
