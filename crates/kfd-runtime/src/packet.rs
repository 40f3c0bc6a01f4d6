//! The packets this runtime sends: AQL for compute queues, PM4 behind them, SDMA for copy queues.

use std::time::Duration;

use kfd_abi::Abi;
use kfd_abi::aql::{
    Barrier, BarrierValue, FenceScope, Header, KernelDispatch, PACKET_SIZE, PacketType, Pm4Ib, SignalCondition,
    VendorFormat,
};

use crate::error::{Error, Result};
use crate::memory::GpuAddr;

/// Sizes of a dispatch, in work-items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    /// All of them, along x, y and z.
    pub grid: [u32; 3],
    /// Those of one workgroup.
    pub group: [u16; 3],
}

impl Launch {
    /// `groups` workgroups of `size` work-items, along x.
    #[must_use]
    pub const fn linear(groups: u32, size: u16) -> Launch {
        Launch { grid: [groups.saturating_mul(size as u32), 1, 1], group: [size, 1, 1] }
    }

    /// Work-items of the dispatch.
    #[must_use]
    pub fn items(&self) -> u64 {
        self.grid.iter().map(|&items| u64::from(items)).product()
    }

    fn dimensions(&self) -> u16 {
        match self.grid {
            [_, 1, 1] => 1,
            [_, _, 1] => 2,
            _ => 3,
        }
    }
}

/// Whether a packet waits for those before it in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// It starts when all packets before it have completed.
    AfterPrevious,
    /// It may run beside them.
    Free,
}

impl Order {
    /// Header with fences that reach the host on both sides.
    fn header(self, kind: PacketType) -> Header {
        Header::new(kind, self == Order::AfterPrevious, FenceScope::SYSTEM, FenceScope::SYSTEM)
    }
}

/// What the dispatch of a kernel refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) descriptor: GpuAddr,
    pub(crate) arguments: GpuAddr,
    pub(crate) scratch_per_item: u32,
    pub(crate) local_memory: u32,
}

/// Runs a kernel.
pub(crate) fn dispatch(target: &Target, launch: &Launch, order: Order, completion: GpuAddr) -> KernelDispatch {
    KernelDispatch {
        header: order.header(PacketType::KERNEL_DISPATCH),
        setup: launch.dimensions(),
        workgroup_size_x: launch.group[0],
        workgroup_size_y: launch.group[1],
        workgroup_size_z: launch.group[2],
        grid_size_x: launch.grid[0],
        grid_size_y: launch.grid[1],
        grid_size_z: launch.grid[2],
        private_segment_size: target.scratch_per_item,
        group_segment_size: target.local_memory,
        kernel_object: target.descriptor.0,
        kernarg_address: target.arguments.0,
        completion_signal: completion.0,
        ..KernelDispatch::default()
    }
}

/// Lasts a stated time on the timed engine of `kernel/vmi300`, which reads it in nanoseconds where processors of other
/// devices expect 0. The grid says how many waves are occupied meanwhile.
pub(crate) fn timed(duration: Duration, waves: u32, order: Order, completion: GpuAddr) -> KernelDispatch {
    let nothing = Target { descriptor: GpuAddr(0), arguments: GpuAddr(0), scratch_per_item: 0, local_memory: 0 };
    KernelDispatch {
        reserved2: duration.as_nanos().try_into().unwrap_or(u64::MAX),
        ..dispatch(&nothing, &Launch::linear(waves, LANES), order, completion)
    }
}

/// Work-items of a wave.
const LANES: u16 = 64;

/// Signals one barrier packet can wait for.
pub(crate) const BARRIER_SIGNALS: usize = 5;

/// Waits until all of up to [`BARRIER_SIGNALS`] signals are 0.
pub(crate) fn barrier_and(signals: &[GpuAddr], order: Order, completion: GpuAddr) -> Barrier {
    let mut dep_signal = [0; BARRIER_SIGNALS];
    for (slot, signal) in dep_signal.iter_mut().zip(signals) {
        *slot = signal.0;
    }
    let header = order.header(PacketType::BARRIER_AND);
    Barrier { header, dep_signal, completion_signal: completion.0, ..Barrier::default() }
}

/// Waits until a signal is not less than `value`.
pub(crate) fn barrier_value(signal: GpuAddr, value: i64, completion: GpuAddr) -> BarrierValue {
    BarrierValue {
        header: Order::AfterPrevious.header(PacketType::VENDOR_SPECIFIC),
        format: VendorFormat::BARRIER_VALUE.0.into(),
        signal: signal.0,
        value,
        mask: -1,
        cond: SignalCondition::GTE,
        completion_signal: completion.0,
        ..BarrierValue::default()
    }
}

/// Executes `words` PM4 words at `address`.
pub(crate) fn jump_to_pm4(address: GpuAddr, words: u32, completion: GpuAddr) -> Pm4Ib {
    Pm4Ib {
        header: Order::AfterPrevious.header(PacketType::VENDOR_SPECIFIC),
        format: VendorFormat::PM4_IB.0.into(),
        ib_jump_cmd: Pm4Ib::jump(address.0, words),
        dw_cnt_remain: Pm4Ib::REMAINING,
        completion_signal: completion.0,
        ..Pm4Ib::default()
    }
}

/// A packet as the ring holds it.
pub(crate) fn bytes_of(packet: &impl Abi) -> Result<[u8; PACKET_SIZE]> {
    let mut bytes = [0; PACKET_SIZE];
    packet.encode(&mut bytes).ok_or(Error::OutOfBounds { offset: 0, length: PACKET_SIZE, size: bytes.len() })?;
    Ok(bytes)
}

/// PM4 `ACQUIRE_MEM` that drops instructions and constants that the caches hold, of the whole address space.
pub(crate) const DROP_CODE_CACHES: [u32; 7] = {
    const ACQUIRE_MEM: u32 = 0x58;
    const WRITE_BACK: u32 = 1 << 18;
    const VECTOR: u32 = 1 << 23;
    const SCALAR: u32 = 1 << 27;
    const INSTRUCTIONS: u32 = 1 << 29;
    // Type 3, two less than the words of the packet.
    let header = 3 << 30 | 5 << 16 | ACQUIRE_MEM << 8;
    [header, INSTRUCTIONS | SCALAR | VECTOR | WRITE_BACK, u32::MAX, 0xFF, 0, 0, 0]
};

/// Packets of the copy engines of gfx9, from the runtime's `sdma_registers.h`.
pub(crate) mod sdma {
    use super::GpuAddr;

    const COPY: u32 = 1;
    const FENCE: u32 = 5;
    const TRAP: u32 = 6;
    const ATOMIC: u32 = 10;
    const FILL: u32 = 11;
    /// Operation of an atomic packet: add 64 bits.
    const ADD64: u32 = 47;
    /// Most bytes of one packet; older engines count in 22 bits.
    const MOST: u64 = 0x3F_FFE0;

    fn halves(value: u64) -> [u32; 2] {
        [value as u32, (value >> 32) as u32]
    }

    /// Splits `length` bytes into what one packet can do: offset and bytes of each.
    fn pieces(length: u64) -> impl Iterator<Item = (u64, u32)> {
        (0..length.div_ceil(MOST)).map(move |piece| {
            let offset = piece * MOST;
            (offset, (length - offset).min(MOST) as u32)
        })
    }

    /// Copies bytes.
    pub(crate) fn copy(from: GpuAddr, to: GpuAddr, length: u64) -> Vec<u32> {
        let packet = |(offset, bytes): (u64, u32)| {
            let ([from_low, from_high], [to_low, to_high]) = (halves(from.plus(offset).0), halves(to.plus(offset).0));
            [COPY, bytes - 1, 0, from_low, from_high, to_low, to_high]
        };
        pieces(length).flat_map(packet).collect()
    }

    /// Fills with a 32-bit pattern; `length` is rounded down to whole words.
    pub(crate) fn fill(at: GpuAddr, pattern: u32, length: u64) -> Vec<u32> {
        const WORDS: u32 = 2 << 30;
        let packet = |(offset, bytes): (u64, u32)| {
            let [low, high] = halves(at.plus(offset).0);
            [FILL | WORDS, low, high, pattern, bytes - 4]
        };
        pieces(length & !3).flat_map(packet).collect()
    }

    /// Counts a signal down, writes its event's id to the mailbox and raises the event.
    pub(crate) fn report(value: GpuAddr, mailbox: GpuAddr, event_id: u32) -> Vec<u32> {
        let ([value_low, value_high], [mailbox_low, mailbox_high]) = (halves(value.0), halves(mailbox.0));
        let [one_less_low, one_less_high] = halves(u64::MAX);
        let decrement = [ATOMIC | ADD64 << 25, value_low, value_high, one_less_low, one_less_high, 0, 0, 0];
        let fence = [FENCE, mailbox_low, mailbox_high, event_id];
        [decrement.as_slice(), &fence, &[TRAP, event_id]].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dispatch_has_its_fields_where_the_processor_reads_them() {
        let target = Target {
            descriptor: GpuAddr(0x1122_3344_5566_7740),
            arguments: GpuAddr(0xAABB_CCDD_0000),
            scratch_per_item: 528,
            local_memory: 1088,
        };
        let launch = Launch { grid: [64, 32, 1], group: [16, 16, 1] };
        let packet = dispatch(&target, &launch, Order::AfterPrevious, GpuAddr(0x9000));
        let bytes = bytes_of(&packet).unwrap();
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        // Type 2, barrier, system fences on both sides; two dimensions.
        assert_eq!(word(0), 2 << 16 | 2 << 11 | 2 << 9 | 1 << 8 | 2);
        assert_eq!((word(4), word(8)), (16 << 16 | 16, 1));
        assert_eq!((word(12), word(16), word(20)), (64, 32, 1));
        assert_eq!((word(24), word(28)), (528, 1088));
        assert_eq!((word(32), word(36)), (0x5566_7740, 0x1122_3344));
        assert_eq!((word(40), word(56)), (0xCCDD_0000, 0x9000));
        assert_eq!(launch.items(), 2048);
    }

    #[test]
    fn a_timed_packet_has_its_duration_where_the_engine_reads_it() {
        let bytes = bytes_of(&timed(Duration::from_micros(20_000), 3, Order::AfterPrevious, GpuAddr(0x9000))).unwrap();
        let field = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        assert_eq!((field(32), field(48), field(56)), (0, 20_000_000, 0x9000));
        assert_eq!(bytes[0], PacketType::KERNEL_DISPATCH.0);
        assert_eq!((bytes[4], bytes[12..16].to_vec()), (64, 192_u32.to_le_bytes().to_vec()));
    }

    #[test]
    fn free_packets_have_no_barrier_bit() {
        assert_eq!(Order::Free.header(PacketType::BARRIER_AND).0 & 1 << 8, 0);
        let packet = barrier_and(&[GpuAddr(0x40), GpuAddr(0x80)], Order::Free, GpuAddr(0));
        assert_eq!(packet.dep_signal, [0x40, 0x80, 0, 0, 0]);
    }

    #[test]
    fn long_copies_are_split_and_cover_every_byte_once() {
        let words = sdma::copy(GpuAddr(0x1_0000_0000), GpuAddr(0x2_0000_0000), 9_000_001);
        let mut expected = 0;
        for packet in words.chunks_exact(7) {
            assert_eq!((packet[0], packet[4], packet[6]), (1, 1, 2));
            assert_eq!((u64::from(packet[3]), packet[5]), (expected, packet[3]));
            expected += u64::from(packet[1]) + 1;
        }
        assert_eq!(expected, 9_000_001);
        assert!(sdma::copy(GpuAddr(0), GpuAddr(0), 0).is_empty());
    }

    #[test]
    fn fills_count_whole_words() {
        assert_eq!(sdma::fill(GpuAddr(0x3_0000_0010), 7, 18), [11 | 2 << 30, 0x10, 3, 7, 12]);
    }

    #[test]
    fn a_report_decrements_writes_the_mailbox_and_interrupts() {
        let words = sdma::report(GpuAddr(0x5_0000_0008), GpuAddr(0x6_0000_0010), 9);
        assert_eq!(words[..5], [10 | 47 << 25, 8, 5, u32::MAX, u32::MAX]);
        assert_eq!(words[8..], [5, 0x10, 6, 9, 6, 9]);
    }

    #[test]
    fn the_cache_packet_says_its_own_length() {
        assert_eq!(DROP_CODE_CACHES[0], 0xC005_5800);
        assert_eq!((DROP_CODE_CACHES[0] >> 16 & 0x3FFF) as usize + 2, DROP_CODE_CACHES.len());
    }
}
