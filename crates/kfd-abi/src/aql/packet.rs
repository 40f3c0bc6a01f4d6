//! The decoded packet: the one reading of an AQL slot, shared by observers of a ring and by the virtual gpu.

use core::num::NonZeroU64;

use crate::Abi;
use crate::hsa::AmdSignal;

use super::{
    Barrier, BarrierValue, COMPLETION_SIGNAL_OFFSET, Header, KernelDispatch, PACKET_SIZE, PacketType, Pm4Ib,
    VendorFormat,
};

/// The bytes of one packet.
pub type Slot = [u8; PACKET_SIZE];

/// Handle of a signal (`hsa_signal_t`): the address of its [`AmdSignal`] in the memory of the program. 0 is no signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SignalHandle(NonZeroU64);

impl SignalHandle {
    /// Wraps a handle; `None` for 0.
    #[must_use]
    pub const fn new(handle: u64) -> Option<SignalHandle> {
        match NonZeroU64::new(handle) {
            Some(handle) => Some(SignalHandle(handle)),
            None => None,
        }
    }

    /// Returns the handle as packets hold it.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0.get()
    }

    /// Returns the address of the signal's 64-bit value.
    #[must_use]
    pub const fn value_address(self) -> u64 {
        self.get().wrapping_add(AmdSignal::VALUE)
    }
}

/// Signals that one barrier packet waits for; a missing one counts as 0.
pub type Dependencies = [Option<SignalHandle>; 5];

/// What the packet processor does with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketKind {
    /// The program has not finished writing the packet, or the processor has fetched it: the processor waits.
    Invalid,
    /// Runs a kernel.
    KernelDispatch(KernelDispatch),
    /// Waits until all of these signals are 0.
    BarrierAnd(Dependencies),
    /// Waits until one of these signals is 0.
    BarrierOr(Dependencies),
    /// Waits until the masked value of a signal satisfies a comparison.
    BarrierValue(BarrierValue),
    /// Executes PM4 commands.
    Pm4Ib(Pm4Ib),
    /// A vendor packet of a format that gfx9 does not define: the processor reports an error.
    UnknownVendor(VendorFormat),
    /// A packet for another kind of agent, or of a type that HSA does not define: the processor reports an error.
    Unknown(PacketType),
}

impl PacketKind {
    /// Returns whether the processor stays at a packet of this kind until signals let it pass.
    #[must_use]
    pub const fn waits(&self) -> bool {
        matches!(self, PacketKind::BarrierAnd(_) | PacketKind::BarrierOr(_) | PacketKind::BarrierValue(_))
    }

    /// Returns whether the signals let the processor pass now; `value` reads the value of one signal. Packets that wait
    /// for no signal pass.
    ///
    /// # Errors
    ///
    /// The first error of `value`. Signals that cannot change the result any more are not read.
    pub fn passes<E>(&self, mut value: impl FnMut(SignalHandle) -> Result<i64, E>) -> Result<bool, E> {
        match self {
            PacketKind::BarrierAnd(signals) => {
                for signal in signals.iter().flatten() {
                    if value(*signal)? != 0 {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            PacketKind::BarrierOr(signals) => {
                let mut named = false;
                for signal in signals.iter().flatten() {
                    named = true;
                    if value(*signal)? == 0 {
                        return Ok(true);
                    }
                }
                Ok(!named)
            }
            PacketKind::BarrierValue(barrier) => match SignalHandle::new(barrier.signal) {
                Some(signal) => Ok(barrier.holds(value(signal)?)),
                None => Ok(true),
            },
            _ => Ok(true),
        }
    }
}

/// A decoded packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Type, barrier bit and fences.
    pub header: Header,
    /// What the packet asks for.
    pub kind: PacketKind,
    /// Signal that is decremented when the packet has completed.
    pub completion: Option<SignalHandle>,
}

impl Packet {
    /// Decodes a packet that the processor has not fetched yet.
    #[must_use]
    pub fn decode(slot: &Slot) -> Packet {
        let header = Header(u16::from_le_bytes([slot[0], slot[1]]));
        let kind = match header.kind() {
            PacketType::INVALID => PacketKind::Invalid,
            PacketType::KERNEL_DISPATCH => PacketKind::KernelDispatch(layout(slot)),
            PacketType::BARRIER_AND => PacketKind::BarrierAnd(dependencies(slot)),
            PacketType::BARRIER_OR => PacketKind::BarrierOr(dependencies(slot)),
            PacketType::VENDOR_SPECIFIC => match VendorFormat(slot[2]) {
                VendorFormat::PM4_IB => PacketKind::Pm4Ib(layout(slot)),
                VendorFormat::BARRIER_VALUE => PacketKind::BarrierValue(layout(slot)),
                format => PacketKind::UnknownVendor(format),
            },
            kind => PacketKind::Unknown(kind),
        };
        Packet { header, kind, completion: completion(slot) }
    }

    /// Decodes a packet that the processor has fetched: it overwrites the header with [`PacketType::INVALID`] and
    /// leaves the rest. The kind then follows from the rest: a kernel has dimensions, a jump to PM4 begins with that
    /// command, a barrier has zeroes there. The rest does not distinguish barrier-AND from barrier-OR; the packet
    /// counts as barrier-AND, which is what runtimes send. The barrier bit is lost and reads as 0.
    #[must_use]
    pub fn decode_fetched(slot: &Slot) -> Packet {
        let packet = Packet::decode(slot);
        if packet.kind != PacketKind::Invalid {
            return packet;
        }
        let kernel: KernelDispatch = layout(slot);
        let commands: Pm4Ib = layout(slot);
        let kind = match VendorFormat(slot[2]) {
            VendorFormat::PM4_IB if commands.target().is_some() => PacketKind::Pm4Ib(commands),
            _ if kernel.setup & 3 != 0 && kernel.workgroup_size_x != 0 => PacketKind::KernelDispatch(kernel),
            VendorFormat::BARRIER_VALUE => PacketKind::BarrierValue(layout(slot)),
            VendorFormat(0) => PacketKind::BarrierAnd(dependencies(slot)),
            format => PacketKind::UnknownVendor(format),
        };
        Packet { header: Header(PacketType::INVALID.0 as u16), kind, ..packet }
    }
}

/// Decodes a structure that is not larger than a packet.
fn layout<T: Abi>(slot: &Slot) -> T {
    const { assert!(T::SIZE <= PACKET_SIZE) };
    T::decode(slot).unwrap_or(T::ZERO)
}

fn dependencies(slot: &Slot) -> Dependencies {
    layout::<Barrier>(slot).dep_signal.map(SignalHandle::new)
}

fn completion(slot: &Slot) -> Option<SignalHandle> {
    let bytes = slot.get(COMPLETION_SIGNAL_OFFSET..)?.first_chunk()?;
    SignalHandle::new(u64::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::super::{AgentDispatch, FenceScope, SignalCondition};
    use super::*;

    fn header(kind: PacketType, barrier: bool) -> Header {
        Header::new(kind, barrier, FenceScope::SYSTEM, FenceScope::SYSTEM)
    }

    fn slot(packet: &impl Abi) -> Slot {
        let mut slot = [0; PACKET_SIZE];
        packet.encode(&mut slot).unwrap();
        slot
    }

    fn barrier(kind: PacketType, dep_signal: [u64; 5]) -> Slot {
        slot(&Barrier { header: header(kind, false), dep_signal, completion_signal: 0x80, ..Default::default() })
    }

    #[test]
    fn every_kind_of_packet_is_decoded() {
        let dispatch = KernelDispatch {
            header: header(PacketType::KERNEL_DISPATCH, true),
            setup: 1,
            workgroup_size_x: 64,
            completion_signal: 0x40,
            ..Default::default()
        };
        let packet = Packet::decode(&slot(&dispatch));
        assert_eq!(packet.kind, PacketKind::KernelDispatch(dispatch));
        assert_eq!((packet.header.barrier(), packet.completion), (true, SignalHandle::new(0x40)));
        let named = [0x1000, 0, 0x2000, 0, 0];
        let all = Packet::decode(&barrier(PacketType::BARRIER_AND, named));
        assert_eq!(all.kind, PacketKind::BarrierAnd(named.map(SignalHandle::new)));
        assert_eq!((all.header.barrier(), all.completion), (false, SignalHandle::new(0x80)));
        let any = Packet::decode(&barrier(PacketType::BARRIER_OR, named));
        assert_eq!(any.kind, PacketKind::BarrierOr(named.map(SignalHandle::new)));
        let vendor = |format: u8| slot(&Pm4Ib { format: format.into(), ..Default::default() });
        assert!(matches!(Packet::decode(&vendor(1)).kind, PacketKind::Pm4Ib(_)));
        assert!(matches!(Packet::decode(&vendor(2)).kind, PacketKind::BarrierValue(_)));
        assert_eq!(Packet::decode(&vendor(3)).kind, PacketKind::UnknownVendor(VendorFormat(3)));
        assert_eq!(Packet::decode(&[0; PACKET_SIZE]).kind, PacketKind::UnknownVendor(VendorFormat(0)));
        let agent = AgentDispatch { header: header(PacketType::AGENT_DISPATCH, false), ..Default::default() };
        assert_eq!(Packet::decode(&slot(&agent)).kind, PacketKind::Unknown(PacketType::AGENT_DISPATCH));
        assert_eq!(Packet::decode(&barrier(PacketType(200), named)).kind, PacketKind::Unknown(PacketType(200)));
        assert_eq!(Packet::decode(&barrier(PacketType::INVALID, named)).kind, PacketKind::Invalid);
    }

    #[test]
    fn a_barrier_with_no_signal_passes() {
        let none: Dependencies = [None; 5];
        let value = BarrierValue { cond: SignalCondition::NE, ..Default::default() };
        for kind in [PacketKind::BarrierAnd(none), PacketKind::BarrierOr(none), PacketKind::BarrierValue(value)] {
            assert_eq!(kind.passes(|_| Err(())), Ok(true), "{kind:?}");
        }
    }

    #[test]
    fn signals_behind_the_deciding_one_are_not_read() {
        let signals = [0x100, 0, 0x200, 0x300, 0].map(SignalHandle::new);
        let read = |decides: i64| {
            move |signal: SignalHandle| match signal.get() {
                0x100 => Ok(1 - decides),
                0x200 => Ok(decides),
                other => Err(other),
            }
        };
        assert_eq!(PacketKind::BarrierAnd(signals).passes(read(1)), Ok(false));
        assert_eq!(PacketKind::BarrierOr(signals).passes(read(0)), Ok(true));
        assert_eq!(PacketKind::BarrierAnd(signals).passes(|_| Ok::<_, ()>(0)), Ok(true));
        assert_eq!(PacketKind::BarrierOr(signals).passes(|_| Ok::<_, ()>(1)), Ok(false));
        assert_eq!(PacketKind::BarrierOr(signals).passes(|signal| Err::<i64, _>(signal.get())), Err(0x100));
    }
}
