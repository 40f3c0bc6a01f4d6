//! PM4: the packets of the command processor itself, in rings and in indirect buffers.
//!
//! Where a device has several XCCs, each of them executes the stream. Here it is executed once, as the first XCC would.

use std::collections::BTreeMap;

use super::context::{Context, Step, address};
use super::dispatch::Dispatches;
use super::errors::Halt;
use super::stream::Stream;
use super::transfer::Transfer;

/// Opcodes.
mod op {
    pub(super) const NOP: u32 = 0x10;
    pub(super) const SET_BASE: u32 = 0x11;
    pub(super) const CLEAR_STATE: u32 = 0x12;
    pub(super) const DISPATCH_DIRECT: u32 = 0x15;
    pub(super) const DISPATCH_INDIRECT: u32 = 0x16;
    pub(super) const ATOMIC_MEM: u32 = 0x1E;
    pub(super) const COND_EXEC: u32 = 0x22;
    pub(super) const PRED_EXEC: u32 = 0x23;
    pub(super) const CONTEXT_CONTROL: u32 = 0x28;
    pub(super) const WRITE_DATA: u32 = 0x37;
    pub(super) const WAIT_REG_MEM: u32 = 0x3C;
    pub(super) const INDIRECT_BUFFER: u32 = 0x3F;
    pub(super) const COPY_DATA: u32 = 0x40;
    pub(super) const PFP_SYNC_ME: u32 = 0x42;
    pub(super) const EVENT_WRITE: u32 = 0x46;
    pub(super) const RELEASE_MEM: u32 = 0x49;
    pub(super) const DMA_DATA: u32 = 0x50;
    pub(super) const ACQUIRE_MEM: u32 = 0x58;
    pub(super) const SET_SH_REG: u32 = 0x76;
    pub(super) const SET_UCONFIG_REG: u32 = 0x79;
    pub(super) const WAIT_REG_MEM64: u32 = 0x93;
}

/// First register of SET_SH_REG.
pub(crate) const SH_REGISTERS: u32 = 0x2C00;
/// First register of SET_UCONFIG_REG.
const UCONFIG_REGISTERS: u32 = 0xC000;
/// Most nested indirect buffers.
const DEPTH: usize = 8;

/// How to proceed after a packet.
pub(super) enum PacketProgress {
    /// With the next packet.
    Next,
    /// With the same packet, later.
    Wait,
    /// With the packet after so many dwords.
    Skip(u32),
    /// With a buffer, then with the next packet.
    Call(Stream),
    /// With a buffer instead of the rest of this one.
    Chain(Stream),
}

/// State of a PM4 stream.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pm4 {
    /// Registers that packets have set.
    pub(super) registers: BTreeMap<u32, u32>,
    /// Indirect buffers being executed, innermost last.
    stack: Vec<Stream>,
    /// A copy under way.
    pub(super) transfer: Option<Transfer>,
    /// Value before the last ATOMIC_MEM.
    pub(super) atomic_result: u64,
    /// Base address of indirect dispatches (SET_BASE).
    pub(super) indirect_base: u64,
    /// Whether a dispatch was started since the flag was cleared.
    pub(super) launched: bool,
    /// Storage for the packet's words.
    body: Vec<u32>,
}

impl Pm4 {
    /// Returns whether a copy or an indirect buffer is unfinished.
    pub(crate) fn is_under_way(&self) -> bool {
        self.transfer.is_some() || self.stack.iter().any(|buffer| buffer.left() > 0)
    }

    /// Executes a buffer before anything else.
    pub(crate) fn call(&mut self, buffer: Stream) -> Result<(), Halt> {
        if self.stack.len() >= DEPTH {
            return Err(Halt::unsupported("indirect buffers inside each other, too deep"));
        }
        self.stack.push(buffer);
        Ok(())
    }

    /// Executes the next packet of the innermost buffer, or else of the ring.
    pub(crate) fn step(
        &mut self,
        ring: Option<&mut Stream>,
        cx: &mut Context<'_>,
        dispatches: &mut Dispatches,
    ) -> Result<Step, Halt> {
        if let Some(transfer) = &mut self.transfer {
            if transfer.proceed(cx)? {
                self.transfer = None;
            }
            return Ok(Step::Done);
        }
        while self.stack.last().is_some_and(|buffer| buffer.left() == 0) {
            self.stack.pop();
        }
        let nested = !self.stack.is_empty();
        let Some(stream) = self.stack.last().or(ring.as_deref()).copied().filter(|stream| stream.left() > 0) else {
            return Ok(Step::Empty);
        };
        let header = stream.peek(cx, 0)?;
        let length = length(header)?;
        if length > stream.left() {
            return if nested { Err(malformed(header, "reaches beyond its buffer")) } else { Ok(Step::Wait) };
        }
        let mut body = std::mem::take(&mut self.body);
        body.clear();
        if length > 1 && opcode(header) != op::NOP {
            stream.read(cx, 1, length - 1, &mut body)?;
        }
        let verdict = if length == 1 { Ok(PacketProgress::Next) } else { self.execute(header, &body, cx, dispatches) };
        self.body = body;
        self.go_on(verdict?, length, ring)
    }

    fn go_on(&mut self, verdict: PacketProgress, length: u64, ring: Option<&mut Stream>) -> Result<Step, Halt> {
        let skipped = match verdict {
            PacketProgress::Wait => return Ok(Step::Wait),
            PacketProgress::Skip(dwords) => u64::from(dwords),
            _ => 0,
        };
        if let Some(stream) = self.stack.last_mut().or(ring) {
            stream.skip(length + skipped);
        }
        match verdict {
            PacketProgress::Call(buffer) => self.call(buffer)?,
            PacketProgress::Chain(buffer) => {
                self.stack.pop();
                self.call(buffer)?;
            }
            _ => {}
        }
        Ok(Step::Done)
    }

    fn execute(
        &mut self,
        header: u32,
        body: &[u32],
        cx: &mut Context<'_>,
        dispatches: &mut Dispatches,
    ) -> Result<PacketProgress, Halt> {
        let verdict = match (opcode(header), body) {
            (op::NOP | op::CLEAR_STATE | op::CONTEXT_CONTROL | op::PFP_SYNC_ME, _) => PacketProgress::Next,
            (op::SET_SH_REG, [offset, values @ ..]) => self.set_registers(SH_REGISTERS, *offset, values),
            (op::SET_UCONFIG_REG, [offset, values @ ..]) => self.set_registers(UCONFIG_REGISTERS, *offset, values),
            (op::SET_BASE, [_, low, high]) => {
                self.indirect_base = address(low & !7, *high);
                PacketProgress::Next
            }
            (op::DISPATCH_DIRECT, &[x, y, z, initiator]) => self.dispatch([x, y, z], initiator, cx, dispatches)?,
            (op::DISPATCH_INDIRECT, &[low, high, initiator]) => {
                self.dispatch_indirect(address(low, high), initiator, cx, dispatches)?
            }
            (op::DISPATCH_INDIRECT, &[offset, initiator]) => {
                let at = self.indirect_base.wrapping_add(u64::from(offset));
                self.dispatch_indirect(at, initiator, cx, dispatches)?
            }
            (op::COND_EXEC, &[low, high, .., count]) => {
                let execute = cx.memory.read_u32(address(low & !3, high))? != 0;
                PacketProgress::Skip(if execute { 0 } else { count & 0x3FFF })
            }
            (op::PRED_EXEC, [select]) => {
                const FIRST_XCC: u32 = 1 << 24;
                PacketProgress::Skip(if select & FIRST_XCC != 0 { 0 } else { select & 0x3FFF })
            }
            (op::INDIRECT_BUFFER, &[low, high, size]) => indirect_buffer(low, high, size),
            (op::EVENT_WRITE, [event, ..]) => event_write(*event, dispatches),
            (op::ACQUIRE_MEM, [control, ..]) => {
                const INSTRUCTION_CACHE: u32 = 1 << 29;
                if control & INSTRUCTION_CACHE != 0 {
                    cx.invalidate_code();
                }
                PacketProgress::Next
            }
            (op::RELEASE_MEM, &[_, select, low, high, data_low, data_high, context]) => {
                // It reports the end of all that came before.
                if !dispatches.idle() {
                    return Ok(PacketProgress::Wait);
                }
                super::pm4_memory::release(cx, select, address(low, high), address(data_low, data_high), context)?
            }
            (op::WAIT_REG_MEM, &[control, low, high, reference, mask, _]) => {
                self.wait(cx, control, [low, high], reference.into(), mask.into(), false)?
            }
            (op::WAIT_REG_MEM64, &[control, low, high, reference, reference_high, mask, mask_high, _]) => {
                let (reference, mask) = (address(reference, reference_high), address(mask, mask_high));
                self.wait(cx, control, [low, high], reference, mask, true)?
            }
            (op::WRITE_DATA, [control, low, high, data @ ..]) => self.write_data(cx, *control, *low, *high, data)?,
            (op::COPY_DATA, &[control, source, source_high, to, to_high]) => {
                self.copy_data(cx, control, address(source, source_high), address(to, to_high))?
            }
            (op::ATOMIC_MEM, &[control, low, high, source, source_high, compare, compare_high, ..]) => {
                let operands = [address(low, high), address(source, source_high), address(compare, compare_high)];
                self.atomic_mem(cx, control, operands)?
            }
            (op::DMA_DATA, &[control, source, source_high, to, to_high, command]) => {
                self.dma_data(control, address(source, source_high), address(to, to_high), command)?
            }
            _ => return Err(malformed(header, "is not executed")),
        };
        Ok(verdict)
    }

    fn set_registers(&mut self, first: u32, offset: u32, values: &[u32]) -> PacketProgress {
        for (n, value) in values.iter().enumerate() {
            self.registers.insert(first + (offset & 0xFFFF) + n as u32, *value);
        }
        PacketProgress::Next
    }

    /// Returns a register; those never set are zero.
    pub(super) fn register(&self, number: u32) -> u32 {
        self.registers.get(&number).copied().unwrap_or(0)
    }
}

/// Waits for kernels at CS_PARTIAL_FLUSH. Other events concern caches and counters that this device does not have.
fn event_write(event: u32, dispatches: &Dispatches) -> PacketProgress {
    const CS_PARTIAL_FLUSH: u32 = 7;
    if event & 0x3F == CS_PARTIAL_FLUSH && !dispatches.idle() { PacketProgress::Wait } else { PacketProgress::Next }
}

fn indirect_buffer(low: u32, high: u32, size: u32) -> PacketProgress {
    const CHAIN: u32 = 1 << 20;
    let buffer = Stream::buffer(address(low, high), u64::from(size & 0xF_FFFF));
    if size & CHAIN != 0 { PacketProgress::Chain(buffer) } else { PacketProgress::Call(buffer) }
}

fn opcode(header: u32) -> u32 {
    header >> 8 & 0xFF
}

/// Returns the dwords of a packet with its header.
fn length(header: u32) -> Result<u64, Halt> {
    /// A NOP whose count is all ones is a header alone.
    const LONE: u32 = 0x3FFF;
    let count = header >> 16 & 0x3FFF;
    match header >> 30 {
        2 => Ok(1),
        3 if opcode(header) == op::NOP && count == LONE => Ok(1),
        3 => Ok(u64::from(count) + 2),
        _ => Err(malformed(header, "is of a kind that queues do not take")),
    }
}

fn malformed(header: u32, why: &str) -> Halt {
    Halt::unsupported(format!("PM4 packet {header:#010x} {why}"))
}
