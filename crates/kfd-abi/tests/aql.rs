//! Packets as observers of a ring find them: with their header, or without it because the processor has fetched them.

use std::cell::Cell;

use kfd_abi::Abi;
use kfd_abi::aql::{
    Barrier, BarrierValue, FenceScope, Header, KernelDispatch, PACKET_SIZE, Packet, PacketKind, PacketType, Pm4Ib,
    SignalCondition, SignalHandle, Slot, VendorFormat,
};
use proptest::prelude::*;

fn header(kind: PacketType, ordered: bool) -> Header {
    Header::new(kind, ordered, FenceScope::SYSTEM, FenceScope::SYSTEM)
}

fn slot(packet: &impl Abi) -> Slot {
    let mut slot = [0; PACKET_SIZE];
    packet.encode(&mut slot).unwrap();
    slot
}

/// What is left of a packet when the processor has it.
fn fetched(mut slot: Slot) -> Slot {
    slot[..2].copy_from_slice(&u16::from(PacketType::INVALID.0).to_le_bytes());
    slot
}

fn kernel(setup: u16, size: [u16; 3]) -> Slot {
    slot(&KernelDispatch {
        header: header(PacketType::KERNEL_DISPATCH, true),
        setup,
        workgroup_size_x: size[0],
        workgroup_size_y: size[1],
        workgroup_size_z: size[2],
        completion_signal: 0x40,
        ..Default::default()
    })
}

fn wait(kind: PacketType, dep_signal: [u64; 5]) -> Slot {
    slot(&Barrier { header: header(kind, false), dep_signal, completion_signal: 0x80, ..Default::default() })
}

fn commands() -> Slot {
    slot(&Pm4Ib {
        header: header(PacketType::VENDOR_SPECIFIC, true),
        format: VendorFormat::PM4_IB.0.into(),
        ib_jump_cmd: Pm4Ib::jump(0x7F00_0000_0000, 7),
        ..Default::default()
    })
}

fn value(signal: u64, mask: i64, cond: SignalCondition, value: i64) -> Slot {
    let header = header(PacketType::VENDOR_SPECIFIC, false);
    let format = VendorFormat::BARRIER_VALUE.0.into();
    slot(&BarrierValue { header, format, signal, value, mask, cond, ..Default::default() })
}

proptest! {
    #[test]
    fn a_kernel_is_known_without_its_header(setup in 1u16..=3, size in prop::array::uniform3(1u16..=1024)) {
        let packet = Packet::decode_fetched(&fetched(kernel(setup, size)));
        prop_assert!(matches!(packet.kind, PacketKind::KernelDispatch(found) if found.setup == setup));
        prop_assert_eq!(packet.completion, SignalHandle::new(0x40));
    }

    #[test]
    fn a_wait_is_known_without_its_header(signals in prop::array::uniform5(any::<u64>())) {
        let packet = Packet::decode_fetched(&fetched(wait(PacketType::BARRIER_AND, signals)));
        prop_assert_eq!(packet.kind, PacketKind::BarrierAnd(signals.map(SignalHandle::new)));
    }

    #[test]
    fn a_condition_is_known_without_its_header(signal: u64, mask: i64, cond in 0u32..4, number: i64) {
        let comparison = SignalCondition(cond);
        let found = Packet::decode_fetched(&fetched(value(signal, mask, comparison, number))).kind;
        let PacketKind::BarrierValue(found) = found else { return Err(TestCaseError::fail("another kind")) };
        prop_assert_eq!((found.signal, found.mask, found.cond, found.value), (signal, mask, comparison, number));
    }

    #[test]
    fn any_bytes_are_some_packet(bytes in prop::collection::vec(any::<u8>(), PACKET_SIZE)) {
        let slot: Slot = bytes.try_into().unwrap();
        let (one, other) = (Packet::decode(&slot), Packet::decode_fetched(&slot));
        prop_assert_eq!(one.completion, other.completion);
        prop_assert!(other.kind != PacketKind::Invalid);
    }
}

#[test]
fn commands_are_known_without_their_header() {
    assert!(matches!(Packet::decode_fetched(&fetched(commands())).kind, PacketKind::Pm4Ib(_)));
}

#[test]
fn waits_pass_as_their_signals_say() {
    let address = 0x1000;
    let values = Cell::new([0, 0]);
    let set = |index: usize, value: i64| {
        let mut changed = values.get();
        changed[index] = value;
        values.set(changed);
    };
    let read = |signal: SignalHandle| match signal.get() {
        0x1000 => Ok(values.get()[0]),
        0x1040 => Ok(values.get()[1]),
        other => Err(other),
    };
    let signals = [SignalHandle::new(address), None, SignalHandle::new(address + 64), None, None];
    let (all, any) = (PacketKind::BarrierAnd(signals), PacketKind::BarrierOr(signals));
    let cond = SignalCondition::LT;
    let condition = BarrierValue { signal: address, mask: 0xF0, cond, value: 0x20, ..Default::default() };
    for (first, second, expected) in [
        (0, 0, (true, true, true)),
        (0x1F, 0, (false, true, true)),
        (0x25, -1, (false, false, false)),
        (-1, 7, (false, false, false)),
    ] {
        set(0, first);
        set(1, second);
        let found = [all, any, PacketKind::BarrierValue(condition)].map(|kind| kind.passes(read).unwrap());
        assert_eq!(found, <[bool; 3]>::from(expected), "{first} {second}");
    }
    let none = [None; 5];
    assert!(PacketKind::BarrierOr(none).passes(read).unwrap());
    assert!(PacketKind::BarrierAnd(none).passes(read).unwrap());
    let lost = PacketKind::BarrierAnd([SignalHandle::new(8), None, None, None, None]);
    assert_eq!(lost.passes(read), Err(8));
}
