use kfd_abi::event::{
    CreateEventArgs, DestroyEventArgs, EVENT_PAGE_SIZE, EventData, EventType, ResetEventArgs, SetEventArgs,
    WaitEventsArgs, WaitResult,
};

use super::*;

fn create(machine: &mut Machine, event_type: EventType, event_page_offset: u64) -> Answer<CreateEventArgs> {
    machine.run(ALICE, CreateEventArgs { event_type, event_page_offset, auto_reset: 1, ..CreateEventArgs::ZERO })
}

#[test]
fn signal_events_have_slots_and_others_do_not() {
    let mut machine = Machine::new("mi300x");
    let signal = create(&mut machine, EventType::SIGNAL, 0);
    let effect = ProcessEffect::CreateEvent { id: 1, kind: EventType::SIGNAL, auto_reset: true, slot: Some(1) };
    assert_eq!(signal.call.effects.process, [effect]);
    let signal = signal.ok();
    assert_eq!((signal.event_id, signal.event_slot_index, signal.event_trigger_data), (1, 1, 1));
    assert_eq!(signal.event_page_offset, 2 << 62);
    let memory = create(&mut machine, EventType::MEMORY, 0);
    let effect = ProcessEffect::CreateEvent { id: 0x4000_0000, kind: EventType::MEMORY, auto_reset: true, slot: None };
    assert_eq!(memory.call.effects.process, [effect]);
    assert_eq!((memory.args.event_id, memory.args.event_page_offset), (0x4000_0000, 0));
}

#[test]
fn the_event_page_is_a_large_enough_buffer_given_once() {
    let mut machine = Machine::new("mi300x");
    let page = |machine: &mut Machine, size: u64, kind: AllocFlags| {
        machine.alloc(ALICE, 0x10_0000, size, kind | RW).ok().handle
    };
    let full = u64::from(EVENT_PAGE_SIZE);
    let small = page(&mut machine, full - PAGE, AllocFlags::GTT);
    let vram = page(&mut machine, full, AllocFlags::VRAM);
    let right = page(&mut machine, full, AllocFlags::GTT);
    for wrong in [small, vram, right + 1, 1] {
        assert_eq!(create(&mut machine, EventType::MEMORY, wrong).errno(), Some(Errno::EINVAL), "{wrong:#x}");
    }
    let answer = create(&mut machine, EventType::MEMORY, right);
    assert!(
        matches!(answer.call.effects.process[..], [ProcessEffect::EventPage { size, .. }, ProcessEffect::CreateEvent { .. }] if size == full)
    );
    answer.ok();
    assert_eq!(create(&mut machine, EventType::SIGNAL, right).errno(), Some(Errno::EINVAL));
    assert_eq!(machine.free(ALICE, right).errno(), Some(Errno::EPERM));
    let other = CreateEventArgs { event_page_offset: right, ..CreateEventArgs::ZERO };
    assert_eq!(machine.run(BOB, other).errno(), Some(Errno::EINVAL));
    let carol = ProcessKey::new(300, 3);
    machine.driver.open(carol).unwrap();
    assert_eq!(machine.run(carol, other).errno(), Some(Errno::ENODEV));
}

#[test]
fn a_process_has_4095_signal_events_and_any_number_of_others() {
    let mut machine = Machine::new("mi300x");
    for id in 1..4096 {
        assert_eq!(create(&mut machine, EventType::SIGNAL, 0).ok().event_id, id);
    }
    assert_eq!(create(&mut machine, EventType::SIGNAL, 0).errno(), Some(Errno::ENOSPC));
    create(&mut machine, EventType::HW_EXCEPTION, 0).ok();
    machine.run(ALICE, DestroyEventArgs { event_id: 77, pad: 0 }).ok();
    assert_eq!(create(&mut machine, EventType::SIGNAL, 0).ok().event_id, 77);
    assert_eq!(machine.run(BOB, CreateEventArgs::ZERO).ok().event_id, 1);
}

#[test]
fn only_signal_events_are_set_by_the_process() {
    let mut machine = Machine::new("mi300x");
    let signal = create(&mut machine, EventType::SIGNAL, 0).ok().event_id;
    let memory = create(&mut machine, EventType::MEMORY, 0).ok().event_id;
    let set = |machine: &mut Machine, event_id| machine.run(ALICE, SetEventArgs { event_id, pad: 0 });
    let reset = |machine: &mut Machine, event_id| machine.run(ALICE, ResetEventArgs { event_id, pad: 0 });
    assert_eq!(set(&mut machine, signal).call.effects.process, [ProcessEffect::SetEvent { id: signal }]);
    assert_eq!(reset(&mut machine, signal).call.effects.process, [ProcessEffect::ResetEvent { id: signal }]);
    for wrong in [memory, 0, 2, u32::MAX] {
        assert_eq!(set(&mut machine, wrong).errno(), Some(Errno::EINVAL));
        assert_eq!(reset(&mut machine, wrong).errno(), Some(Errno::EINVAL));
    }
    let destroy = machine.run(ALICE, DestroyEventArgs { event_id: signal, pad: 0 });
    assert_eq!(destroy.call.effects.process, [ProcessEffect::DestroyEvent { id: signal }]);
    assert_eq!(machine.run(ALICE, DestroyEventArgs { event_id: signal, pad: 0 }).errno(), Some(Errno::EINVAL));
    assert_eq!(set(&mut machine, signal).errno(), Some(Errno::EINVAL));
}

#[test]
fn a_wait_names_events_that_exist() {
    let mut machine = Machine::new("mi300x");
    let known = create(&mut machine, EventType::SIGNAL, 0).ok().event_id;
    let wait = |machine: &mut Machine, ids: &[u32]| {
        let num_events = ids.len() as u32;
        let args = WaitEventsArgs { events_ptr: 1, num_events, wait_for_all: 1, timeout: 30, ..WaitEventsArgs::ZERO };
        let mut call = Call::new(&args);
        let list = ids.iter().map(|&event_id| EventData { event_id, ..EventData::ZERO });
        call.buffers = vec![list.flat_map(|event| call::encode(&event)).collect()];
        machine.call::<WaitEventsArgs>(ALICE, call)
    };
    let answer = wait(&mut machine, &[known]);
    assert_eq!(answer.call.wait, Some(EventWait { ids: vec![known], all: true, timeout: 30 }));
    assert!(answer.call.effects.is_empty());
    answer.ok();
    let unknown = wait(&mut machine, &[known, known + 1]);
    assert_eq!((unknown.errno(), unknown.args.wait_result), (Some(Errno::EINVAL), WaitResult::FAIL));
    assert_eq!(machine.driver.wait_events(ALICE, &[known]), Ok(()));
    assert_eq!(machine.driver.wait_events(BOB, &[known]), Err(Errno::EINVAL));
    let unreadable = WaitEventsArgs { num_events: 1, ..WaitEventsArgs::ZERO };
    assert_eq!(machine.run(ALICE, unreadable).errno(), Some(Errno::EFAULT));
    let endless = WaitEventsArgs { num_events: u32::MAX, ..WaitEventsArgs::ZERO };
    assert_eq!(machine.run(ALICE, endless).errno(), Some(Errno::EINVAL));
}
