//! AQL packets, the contents of a compute queue's ring: 64 bytes each. Layouts here, [`Packet`] decodes them.
//!
//! Sources: the HSA runtime headers `hsa.h` and `hsa_ext_amd.h`, and `amd_aql_queue.cpp` for the packet that jumps to
//! PM4 (ROCR-Runtime c7785a6d). The program writes the header last: until then the processor sees
//! [`PacketType::INVALID`]. Slots at or behind the write index must not be read as packets: zeroed memory looks like a
//! vendor packet.

mod packet;

pub use packet::{Dependencies, Packet, PacketKind, SignalHandle, Slot};

/// Bytes of a packet.
pub const PACKET_SIZE: usize = 64;

numbers! {
    /// Kind of a packet.
    PacketType: u8 {
        /// One of AMD's own: [`VendorFormat`].
        VENDOR_SPECIFIC = 0,
        /// Not ready: the processor waits.
        INVALID = 1,
        /// Run a kernel.
        KERNEL_DISPATCH = 2,
        /// Wait until all of some signals are 0.
        BARRIER_AND = 3,
        /// Call a function on the agent.
        AGENT_DISPATCH = 4,
        /// Wait until one of some signals is 0.
        BARRIER_OR = 5,
    }
}

numbers! {
    /// How far a memory fence reaches.
    FenceScope: u8 {
        /// No fence.
        NONE = 0,
        /// The gpu.
        AGENT = 1,
        /// The machine.
        SYSTEM = 2,
    }
}

numbers! {
    /// Kind of a vendor packet: the byte after the header.
    VendorFormat: u8 {
        /// Jump to PM4 packets: [`Pm4Ib`].
        PM4_IB = 1,
        /// Wait for a condition on a signal: [`BarrierValue`].
        BARRIER_VALUE = 2,
    }
}

/// First 16 bits of a packet.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Header(pub u16);
transparent!(Header);

impl Header {
    const BARRIER: u16 = 1 << 8;
    const ACQUIRE_SHIFT: u32 = 9;
    const RELEASE_SHIFT: u32 = 11;

    /// Assembles a header: `barrier` makes the packet wait for all packets before it, `acquire` fences before it runs,
    /// `release` after.
    #[must_use]
    pub const fn new(kind: PacketType, barrier: bool, acquire: FenceScope, release: FenceScope) -> Header {
        let barrier = if barrier { Header::BARRIER } else { 0 };
        Header(
            kind.0 as u16
                | barrier
                | (acquire.0 as u16 & 3) << Header::ACQUIRE_SHIFT
                | (release.0 as u16 & 3) << Header::RELEASE_SHIFT,
        )
    }

    /// Returns the type of the packet.
    #[must_use]
    pub const fn kind(self) -> PacketType {
        PacketType(self.0 as u8)
    }

    /// Returns whether the packet starts only after all packets before it have completed.
    #[must_use]
    pub const fn barrier(self) -> bool {
        self.0 & Header::BARRIER != 0
    }

    /// Returns the scope of the fence before the packet runs.
    #[must_use]
    pub const fn acquire(self) -> FenceScope {
        FenceScope((self.0 >> Header::ACQUIRE_SHIFT & 3) as u8)
    }

    /// Returns the scope of the fence after the packet ran.
    #[must_use]
    pub const fn release(self) -> FenceScope {
        FenceScope((self.0 >> Header::RELEASE_SHIFT & 3) as u8)
    }
}

/// Runs a kernel (`hsa_kernel_dispatch_packet_t`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelDispatch {
    /// Type, barrier bit, fences.
    pub header: Header,
    /// Bits 0 and 1: dimensions, 1 to 3.
    pub setup: u16,
    /// Work-items of a group, x.
    pub workgroup_size_x: u16,
    /// Work-items of a group, y.
    pub workgroup_size_y: u16,
    /// Work-items of a group, z.
    pub workgroup_size_z: u16,
    /// Zero.
    pub reserved0: u16,
    /// Work-items of all groups, x.
    pub grid_size_x: u32,
    /// Work-items of all groups, y.
    pub grid_size_y: u32,
    /// Work-items of all groups, z.
    pub grid_size_z: u32,
    /// Bytes of scratch of a work-item.
    pub private_segment_size: u32,
    /// Bytes of local data of a group.
    pub group_segment_size: u32,
    /// Address of the kernel descriptor.
    pub kernel_object: u64,
    /// Address of the kernel's arguments.
    pub kernarg_address: u64,
    /// Zero.
    pub reserved2: u64,
    /// Signal that is decremented at the end, or 0.
    pub completion_signal: u64,
}
plain!(KernelDispatch {
    header,
    setup,
    workgroup_size_x,
    workgroup_size_y,
    workgroup_size_z,
    reserved0,
    grid_size_x,
    grid_size_y,
    grid_size_z,
    private_segment_size,
    group_segment_size,
    kernel_object,
    kernarg_address,
    reserved2,
    completion_signal
});

/// Waits for up to five signals to be 0, for all or for one by its kind (`hsa_barrier_and_packet_t`,
/// `hsa_barrier_or_packet_t`). A missing signal, 0, counts as one that is 0.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Barrier {
    /// Type, barrier bit, fences.
    pub header: Header,
    /// Zero.
    pub reserved0: u16,
    /// Zero.
    pub reserved1: u32,
    /// The signals.
    pub dep_signal: [u64; 5],
    /// Zero.
    pub reserved2: u64,
    /// Signal that is decremented at the end, or 0.
    pub completion_signal: u64,
}
plain!(Barrier { header, reserved0, reserved1, dep_signal, reserved2, completion_signal });

/// Calls a function on the agent (`hsa_agent_dispatch_packet_t`). Gpus do not execute it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AgentDispatch {
    /// Type, barrier bit, fences.
    pub header: Header,
    /// Number of the function.
    pub function: u16,
    /// Zero.
    pub reserved0: u32,
    /// Where its result goes.
    pub return_address: u64,
    /// Its arguments.
    pub arg: [u64; 4],
    /// Zero.
    pub reserved2: u64,
    /// Signal that is decremented at the end, or 0.
    pub completion_signal: u64,
}
plain!(AgentDispatch { header, function, reserved0, return_address, arg, reserved2, completion_signal });

/// Jumps to PM4 packets, from gfx9 on.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pm4Ib {
    /// Type `VENDOR_SPECIFIC`, barrier, fences.
    pub header: Header,
    /// [`VendorFormat::PM4_IB`] in the low byte.
    pub format: u16,
    /// A PM4 `INDIRECT_BUFFER` packet.
    pub ib_jump_cmd: [u32; 4],
    /// Words of the packet after this one: [`Pm4Ib::REMAINING`].
    pub dw_cnt_remain: u32,
    /// Zero.
    pub reserved: [u32; 8],
    /// Signal that is decremented at the end, or 0.
    pub completion_signal: u64,
}
plain!(Pm4Ib { header, format, ib_jump_cmd, dw_cnt_remain, reserved, completion_signal });

impl Pm4Ib {
    /// Header of a PM4 `INDIRECT_BUFFER` packet of four words: type 3, two less than its words, opcode 0x3F.
    pub const INDIRECT_BUFFER: u32 = 3 << 30 | 2 << 16 | 0x3F << 8;
    /// Valid bit of its last word, beside the size.
    pub const IB_VALID: u32 = 1 << 23;
    /// Words after `dw_cnt_remain`.
    pub const REMAINING: u32 = 10;

    /// Returns the PM4 packet that jumps to `words` 32-bit words at `address`.
    #[must_use]
    pub const fn jump(address: u64, words: u32) -> [u32; 4] {
        let (low, high) = (address as u32 & !3, (address >> 32) as u32 & 0xFFFF);
        [Pm4Ib::INDIRECT_BUFFER, low, high, words & 0xF_FFFF | Pm4Ib::IB_VALID]
    }

    /// Returns address and number of words of the PM4 packets; `None` if the packet holds no jump.
    #[must_use]
    pub const fn target(&self) -> Option<(u64, u32)> {
        let [command, low, high, size] = self.ib_jump_cmd;
        if command != Pm4Ib::INDIRECT_BUFFER {
            return None;
        }
        Some((((high & 0xFFFF) as u64) << 32 | (low & !3) as u64, size & 0xF_FFFF))
    }
}

numbers! {
    /// Comparison of a signal's value with a reference (`hsa_signal_condition_t`).
    SignalCondition: u32 {
        /// Equal.
        EQ = 0,
        /// Not equal.
        NE = 1,
        /// Less than, signed.
        LT = 2,
        /// Greater than or equal, signed.
        GTE = 3,
    }
}

impl SignalCondition {
    /// Returns whether `value` compares with `reference` as the condition asks. A condition that HSA does not define
    /// never holds.
    ///
    /// No public source says what the packet processor does with an undefined condition: `hsa_ext_amd.h` refers to
    /// `hsa_signal_condition_t`, which has four values, the Linux driver does not look into packets, and the firmware
    /// is closed. "Never holds" is the reading of AMD's own software on the host: in ROCR-Runtime the `default`
    /// branches of `BusyWaitSignal::WaitRelaxed` and `InterruptSignal::WaitRelaxed` give up without the condition being
    /// met and `Signal::WaitMultiple` returns "no signal"; `signal_condition_satisfied` of rocprofiler-sdk returns
    /// false. It is also the reading that does no harm where it is wrong:
    ///
    /// - An observer takes a queue at such a packet for blocked, so it never displaces another queue for a packet that
    ///   may never pass. If the processor does pass it, the read index moves and the next look sees what follows.
    /// - The virtual gpu stays at the packet, which can be preempted, saved and destroyed like any other wait. A
    ///   program with a corrupt packet hangs visibly instead of running kernels before their inputs exist.
    #[must_use]
    pub const fn holds(self, value: i64, reference: i64) -> bool {
        match self {
            SignalCondition::EQ => value == reference,
            SignalCondition::NE => value != reference,
            SignalCondition::LT => value < reference,
            SignalCondition::GTE => value >= reference,
            _ => false,
        }
    }
}

/// Waits until the masked value of a signal satisfies a comparison (`hsa_amd_barrier_value_packet_t`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BarrierValue {
    /// Type `VENDOR_SPECIFIC`, barrier, fences.
    pub header: Header,
    /// [`VendorFormat::BARRIER_VALUE`] in the low byte.
    pub format: u16,
    /// Zero.
    pub reserved0: u32,
    /// The signal; a missing one, 0, counts as satisfied.
    pub signal: u64,
    /// Reference of the comparison.
    pub value: i64,
    /// Bits of the signal's value that count.
    pub mask: i64,
    /// Comparison.
    pub cond: SignalCondition,
    /// Zero.
    pub reserved1: u32,
    /// Zero.
    pub reserved2: u64,
    /// Zero.
    pub reserved3: u64,
    /// Signal that is decremented at the end, or 0.
    pub completion_signal: u64,
}
plain!(BarrierValue {
    header,
    format,
    reserved0,
    signal,
    value,
    mask,
    cond,
    reserved1,
    reserved2,
    reserved3,
    completion_signal
});

impl BarrierValue {
    /// Returns whether a value of the signal lets the packet pass. The mask applies to the signal's value only, not to
    /// the reference: `(signal_value & mask) cond value` (`hsa_ext_amd.h`).
    #[must_use]
    pub const fn holds(&self, signal_value: i64) -> bool {
        self.cond.holds(signal_value & self.mask, self.value)
    }
}

/// Offset of the completion signal, in every kind of packet.
pub const COMPLETION_SIGNAL_OFFSET: usize = 56;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_laid_out_as_in_c() {
        layout!(KernelDispatch, 64, {
            header: 0, setup: 2, workgroup_size_x: 4, workgroup_size_z: 8, grid_size_x: 12, grid_size_z: 20,
            private_segment_size: 24, group_segment_size: 28, kernel_object: 32, kernarg_address: 40,
            completion_signal: COMPLETION_SIGNAL_OFFSET,
        });
        layout!(Barrier, 64, { dep_signal: 8, completion_signal: COMPLETION_SIGNAL_OFFSET });
        layout!(AgentDispatch, 64, {
            function: 2, return_address: 8, arg: 16, completion_signal: COMPLETION_SIGNAL_OFFSET,
        });
        layout!(Pm4Ib, 64, {
            format: 2, ib_jump_cmd: 4, dw_cnt_remain: 20, reserved: 24, completion_signal: COMPLETION_SIGNAL_OFFSET,
        });
        layout!(BarrierValue, 64, {
            format: 2, signal: 8, value: 16, mask: 24, cond: 32, completion_signal: COMPLETION_SIGNAL_OFFSET,
        });
        assert_eq!(Pm4Ib::REMAINING as usize * 4, PACKET_SIZE - core::mem::offset_of!(Pm4Ib, reserved));
    }

    #[test]
    fn a_header_falls_into_its_parts() {
        let header = Header::new(PacketType::KERNEL_DISPATCH, true, FenceScope::AGENT, FenceScope::SYSTEM);
        assert_eq!(header.0, 0x1302);
        assert_eq!((header.kind(), header.barrier()), (PacketType::KERNEL_DISPATCH, true));
        assert_eq!((header.acquire(), header.release()), (FenceScope::AGENT, FenceScope::SYSTEM));
        assert_eq!(Header(0).kind(), PacketType::VENDOR_SPECIFIC);
    }

    #[test]
    fn conditions_compare_signed_and_undefined_ones_never_hold() {
        let all = [i64::MIN, -1, 0, 1, i64::MAX];
        for (value, reference) in all.into_iter().flat_map(|value| all.map(|reference| (value, reference))) {
            let defined = [value == reference, value != reference, value < reference, value >= reference];
            for (condition, expected) in SignalCondition::DEFINED.iter().zip(defined) {
                assert_eq!(condition.holds(value, reference), expected, "{value} {condition:?} {reference}");
            }
            for undefined in (4..=u32::from(u8::MAX)).chain([1 << 8, 1 << 31 | 3, u32::MAX]) {
                assert!(!SignalCondition(undefined).holds(value, reference), "{undefined}");
            }
        }
    }

    #[test]
    fn the_mask_applies_to_the_signal_and_not_to_the_reference() {
        let barrier = |cond, value| BarrierValue { cond, value, mask: 0xF0, ..Default::default() };
        assert!(barrier(SignalCondition::EQ, 0x20).holds(0x12F));
        assert!(!barrier(SignalCondition::EQ, 0x2F).holds(0x12F));
        assert!(barrier(SignalCondition::LT, 0x31).holds(-0xD0 + 0x0F));
    }

    #[test]
    fn a_jump_leads_where_it_was_pointed() {
        let packet = Pm4Ib { ib_jump_cmd: Pm4Ib::jump(0x7F12_3456_7000, 8), ..Default::default() };
        assert_eq!(packet.ib_jump_cmd, [0xC002_3F00, 0x3456_7000, 0x7F12, 0x0080_0008]);
        assert_eq!(packet.target(), Some((0x7F12_3456_7000, 8)));
        assert_eq!(Pm4Ib::default().target(), None);
    }
}
