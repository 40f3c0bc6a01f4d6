//! Packets of a compute queue, as they lie in the ring of another process.
//!
//! Layouts and numbers are those of [`kfd_abi::aql`] and [`kfd_abi::hsa`], from the headers `hsa.h`, `hsa_ext_amd.h` and
//! `amd_hsa_signal.h` of ROCR-Runtime (c7785a6d). The processor marks the slot of a packet that it fetched as not ready
//! and leaves the rest of it, so a packet that it still waits at is read with [`Packet::decode_fetched`].

use kfd_abi::Abi;
use kfd_abi::aql::{
    Barrier, BarrierValue, COMPLETION_SIGNAL_OFFSET, Header, KernelDispatch, PacketType, Pm4Ib, SignalCondition,
    VendorFormat,
};
use kfd_abi::hsa::AmdSignal;

use crate::error::Result;
use crate::memory::ProcessMemory;

pub use kfd_abi::aql::PACKET_SIZE;

/// The bytes of one packet.
pub type Slot = [u8; PACKET_SIZE];

/// A signal, by its address in the owner's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Signal(u64);

impl Signal {
    /// The signal at a handle; 0 is none.
    #[must_use]
    pub const fn at(handle: u64) -> Option<Signal> {
        if handle == 0 { None } else { Some(Signal(handle)) }
    }

    /// Its handle.
    #[must_use]
    pub const fn handle(self) -> u64 {
        self.0
    }

    /// Its value now.
    ///
    /// # Errors
    ///
    /// As [`ProcessMemory::read`].
    pub fn value(self, memory: &ProcessMemory) -> Result<i64> {
        Ok(memory.read_u64(self.0.wrapping_add(AmdSignal::VALUE))?.cast_signed())
    }
}

/// Signals that one barrier packet waits for.
pub type Dependencies = [Option<Signal>; 5];

/// A condition on the value of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Condition {
    /// The signal; a missing one is satisfied.
    pub signal: Option<Signal>,
    /// Bits of its value that count.
    pub mask: i64,
    /// How they are compared.
    pub comparison: SignalCondition,
    /// With what.
    pub value: i64,
}

impl Condition {
    /// Whether a value of the signal satisfies it. The processor waits for ever for a comparison that it does not know.
    #[must_use]
    pub fn holds(&self, found: i64) -> bool {
        let found = found & self.mask;
        match self.comparison {
            SignalCondition::EQ => found == self.value,
            SignalCondition::NE => found != self.value,
            SignalCondition::LT => found < self.value,
            SignalCondition::GTE => found >= self.value,
            _ => false,
        }
    }
}

/// What the processor does with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The program has not finished writing it: the processor waits.
    NotReady,
    /// Runs a kernel.
    Kernel,
    /// Waits until all of these are 0.
    WaitAll(Dependencies),
    /// Waits until one of these is 0.
    WaitAny(Dependencies),
    /// Waits for a condition.
    WaitValue(Condition),
    /// Executes PM4 commands.
    Commands,
    /// A packet for another kind of agent, or one that is not known: the processor reports an error.
    Unknown,
}

impl Kind {
    /// Whether the processor stays at a packet of this kind until signals let it pass.
    #[must_use]
    pub const fn waits(&self) -> bool {
        matches!(self, Kind::WaitAll(_) | Kind::WaitAny(_) | Kind::WaitValue(_))
    }

    /// Whether the signals let the processor pass now.
    ///
    /// # Errors
    ///
    /// If a signal that it depends on cannot be read.
    pub fn passes(&self, memory: &ProcessMemory) -> Result<bool> {
        match self {
            Kind::WaitAll(signals) => {
                for signal in signals.iter().flatten() {
                    if signal.value(memory)? != 0 {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Kind::WaitAny(signals) => {
                let mut named = false;
                for signal in signals.iter().flatten() {
                    named = true;
                    if signal.value(memory)? == 0 {
                        return Ok(true);
                    }
                }
                Ok(!named)
            }
            Kind::WaitValue(condition) => match condition.signal {
                Some(signal) => Ok(condition.holds(signal.value(memory)?)),
                None => Ok(true),
            },
            _ => Ok(true),
        }
    }
}

/// A packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// What it asks for.
    pub kind: Kind,
    /// Whether it starts only after all packets before it have completed.
    pub ordered: bool,
    /// Counted down when it has completed.
    pub completion: Option<Signal>,
}

impl Packet {
    /// A packet that the processor has not fetched yet.
    #[must_use]
    pub fn decode(slot: &Slot) -> Packet {
        let header = Header(u16::from_le_bytes([slot[0], slot[1]]));
        let kind = match header.kind() {
            PacketType::INVALID => Kind::NotReady,
            PacketType::KERNEL_DISPATCH => Kind::Kernel,
            PacketType::BARRIER_AND => Kind::WaitAll(dependencies(slot)),
            PacketType::BARRIER_OR => Kind::WaitAny(dependencies(slot)),
            PacketType::VENDOR_SPECIFIC => match VendorFormat(slot[2]) {
                VendorFormat::PM4_IB => Kind::Commands,
                VendorFormat::BARRIER_VALUE => Kind::WaitValue(condition(slot)),
                _ => Kind::Unknown,
            },
            _ => Kind::Unknown,
        };
        Packet { kind, ordered: header.barrier(), completion: completion(slot) }
    }

    /// A packet that the processor has fetched. Where its header is gone, the kind follows from the rest: a kernel has a
    /// size, a jump to commands begins with that command, a wait has zeroes there. Whether a wait was for all or for one
    /// of its signals cannot be told; it is taken for the first, which is what runtimes send.
    #[must_use]
    pub fn decode_fetched(slot: &Slot) -> Packet {
        let packet = Packet::decode(slot);
        if packet.kind != Kind::NotReady {
            return packet;
        }
        let kernel: KernelDispatch = decode(slot);
        let commands: Pm4Ib = decode(slot);
        let kind = match VendorFormat(slot[2]) {
            VendorFormat::PM4_IB if commands.target().is_some() => Kind::Commands,
            _ if kernel.setup & 3 != 0 && kernel.workgroup_size_x != 0 => Kind::Kernel,
            VendorFormat::BARRIER_VALUE => Kind::WaitValue(condition(slot)),
            VendorFormat(0) => Kind::WaitAll(dependencies(slot)),
            _ => Kind::Unknown,
        };
        Packet { kind, ordered: false, ..packet }
    }
}

/// A structure that is not larger than a packet.
fn decode<T: Abi>(slot: &Slot) -> T {
    T::decode(slot).unwrap_or(T::ZERO)
}

fn dependencies(slot: &Slot) -> Dependencies {
    decode::<Barrier>(slot).dep_signal.map(Signal::at)
}

fn condition(slot: &Slot) -> Condition {
    let BarrierValue { signal, value, mask, cond, .. } = decode(slot);
    Condition { signal: Signal::at(signal), mask, comparison: cond, value }
}

fn completion(slot: &Slot) -> Option<Signal> {
    let bytes = slot.get(COMPLETION_SIGNAL_OFFSET..)?.first_chunk()?;
    Signal::at(u64::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use kfd_abi::aql::{AgentDispatch, FenceScope};
    use proptest::prelude::*;

    use super::*;
    use crate::id::Pid;

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

    #[test]
    fn every_kind_of_packet_is_told() {
        let packet = Packet::decode(&kernel(1, [64, 1, 1]));
        assert_eq!(packet, Packet { kind: Kind::Kernel, ordered: true, completion: Signal::at(0x40) });
        let signals = [Signal::at(0x1000), None, Signal::at(0x2000), None, None];
        let all = Packet::decode(&wait(PacketType::BARRIER_AND, [0x1000, 0, 0x2000, 0, 0]));
        assert_eq!(all, Packet { kind: Kind::WaitAll(signals), ordered: false, completion: Signal::at(0x80) });
        let any = Packet::decode(&wait(PacketType::BARRIER_OR, [0x1000, 0, 0x2000, 0, 0]));
        assert_eq!(any.kind, Kind::WaitAny(signals));
        assert_eq!(Packet::decode(&commands()), Packet { kind: Kind::Commands, ordered: true, completion: None });
        let signal = Signal::at(0x3000);
        let condition = Condition { signal, mask: 7, comparison: SignalCondition::GTE, value: 2 };
        assert_eq!(Packet::decode(&value(0x3000, 7, SignalCondition::GTE, 2)).kind, Kind::WaitValue(condition));
        let agent = AgentDispatch { header: header(PacketType::AGENT_DISPATCH, false), ..Default::default() };
        assert_eq!(Packet::decode(&slot(&agent)).kind, Kind::Unknown);
        assert_eq!(Packet::decode(&[0; PACKET_SIZE]).kind, Kind::Unknown);
        assert_eq!(Packet::decode(&fetched(kernel(1, [64, 1, 1]))).kind, Kind::NotReady);
    }

    proptest! {
        #[test]
        fn a_kernel_is_known_without_its_header(setup in 1u16..=3, size in prop::array::uniform3(1u16..=1024)) {
            let packet = Packet::decode_fetched(&fetched(kernel(setup, size)));
            prop_assert_eq!((packet.kind, packet.completion), (Kind::Kernel, Signal::at(0x40)));
        }

        #[test]
        fn a_wait_is_known_without_its_header(signals in prop::array::uniform5(any::<u64>())) {
            let packet = Packet::decode_fetched(&fetched(wait(PacketType::BARRIER_AND, signals)));
            prop_assert_eq!(packet.kind, Kind::WaitAll(signals.map(Signal::at)));
        }

        #[test]
        fn a_condition_is_known_without_its_header(signal: u64, mask: i64, cond in 0u32..4, number: i64) {
            let comparison = SignalCondition(cond);
            let found = Packet::decode_fetched(&fetched(value(signal, mask, comparison, number))).kind;
            let condition = Condition { signal: Signal::at(signal), mask, comparison, value: number };
            prop_assert_eq!(found, Kind::WaitValue(condition));
        }

        #[test]
        fn any_bytes_are_some_packet(bytes in prop::collection::vec(any::<u8>(), PACKET_SIZE)) {
            let slot: Slot = bytes.try_into().unwrap();
            let (one, other) = (Packet::decode(&slot), Packet::decode_fetched(&slot));
            prop_assert_eq!(one.completion, other.completion);
            prop_assert!(other.kind != Kind::NotReady);
        }
    }

    #[test]
    fn commands_are_known_without_their_header() {
        assert_eq!(Packet::decode_fetched(&fetched(commands())).kind, Kind::Commands);
    }

    #[test]
    fn waits_pass_as_their_signals_say() {
        let memory = ProcessMemory::open(Pid(std::process::id())).unwrap();
        let records: Box<[AmdSignal; 2]> = Box::new([AmdSignal { value: 0, ..AmdSignal::ZERO }, AmdSignal::ZERO]);
        let address = (&raw const *records).expose_provenance() as u64;
        let set = |index: u64, value: i64| {
            memory.write(address + index * 64 + AmdSignal::VALUE, &value.to_le_bytes()).unwrap();
        };
        let signals = [Signal::at(address), None, Signal::at(address + 64), None, None];
        let (all, any) = (Kind::WaitAll(signals), Kind::WaitAny(signals));
        let comparison = SignalCondition::LT;
        let condition = Condition { signal: signals[0], mask: 0xF0, comparison, value: 0x20 };
        for (first, second, passes) in [
            (0, 0, (true, true, true)),
            (0x1F, 0, (false, true, true)),
            (0x25, -1, (false, false, false)),
            (-1, 7, (false, false, false)),
        ] {
            set(0, first);
            set(1, second);
            let found = [all, any, Kind::WaitValue(condition)].map(|kind| kind.passes(&memory).unwrap());
            assert_eq!(found, <[bool; 3]>::from(passes), "{first} {second}");
        }
        let none = [None; 5];
        assert!(Kind::WaitAny(none).passes(&memory).unwrap() && Kind::WaitAll(none).passes(&memory).unwrap());
        let lost = Kind::WaitAll([Signal::at(8), None, None, None, None]);
        assert!(lost.passes(&memory).is_err());
        drop(records);
    }
}
