//! PM4 packets that wait for memory, read it and write it.

use super::atomic::Atomic;
use super::context::{Context, address, compares};
use super::errors::Halt;
use super::pm4::{PacketProgress, Pm4};
use super::transfer::{Source, Transfer};

/// RELEASE_MEM, once all before it has ended: writes data or the time, and interrupts.
pub(super) fn release(
    cx: &mut Context<'_>,
    select: u32,
    to: u64,
    data: u64,
    context: u32,
) -> Result<PacketProgress, Halt> {
    let value = match select >> 29 {
        3 | 4 => (cx.clock)(),
        _ => data,
    };
    match select >> 29 {
        0 => {}
        1 => cx.store(to & !3, value, false)?,
        2..=4 => cx.store(to & !7, value, true)?,
        other => return Err(Halt::unsupported(format!("RELEASE_MEM writes data of kind {other}"))),
    }
    const INTERRUPT: u32 = 1;
    const INTERRUPT_AFTER_WRITE: u32 = 2;
    if matches!(select >> 24 & 7, INTERRUPT | INTERRUPT_AFTER_WRITE) {
        if context != 0 {
            cx.interrupts.event(context);
        } else {
            cx.interrupts.mailbox(to, value);
        }
    }
    Ok(PacketProgress::Next)
}

impl Pm4 {
    /// WAIT_REG_MEM.
    pub(super) fn wait(
        &self,
        cx: &mut Context<'_>,
        control: u32,
        [low, high]: [u32; 2],
        reference: u64,
        mask: u64,
        wide: bool,
    ) -> Result<PacketProgress, Halt> {
        const MEMORY: u32 = 1;
        // Writes one register and waits for another: flushes of host data paths, of which there are none.
        const WRITE_WAIT: u32 = 1;
        let value = match (control >> 4 & 3, control >> 6 & 3) {
            (MEMORY, _) => cx.load(address(low & !3, high), wide)?,
            (_, WRITE_WAIT) => return Ok(PacketProgress::Next),
            _ => u64::from(self.register(low & 0x3_FFFF)),
        };
        Ok(if compares(control, value & mask, reference) { PacketProgress::Next } else { PacketProgress::Wait })
    }

    /// WRITE_DATA.
    pub(super) fn write_data(
        &mut self,
        cx: &mut Context<'_>,
        control: u32,
        low: u32,
        high: u32,
        data: &[u32],
    ) -> Result<PacketProgress, Halt> {
        const STAY: u32 = 1 << 16;
        let step = u32::from(control & STAY == 0);
        match control >> 8 & 0xF {
            0 => {
                for (n, value) in (0..).zip(data) {
                    self.registers.insert((low & 0x3_FFFF) + n * step, *value);
                }
            }
            2 | 5 => {
                let to = address(low & !3, high);
                for (n, value) in (0..).zip(data) {
                    cx.memory.write_u32(to.wrapping_add(4 * n * u64::from(step)), *value)?;
                }
            }
            other => return Err(Halt::unsupported(format!("WRITE_DATA to destination {other}"))),
        }
        Ok(PacketProgress::Next)
    }

    /// COPY_DATA.
    pub(super) fn copy_data(
        &mut self,
        cx: &mut Context<'_>,
        control: u32,
        source: u64,
        to: u64,
    ) -> Result<PacketProgress, Halt> {
        let wide = control >> 16 & 1 != 0;
        let align = if wide { !7 } else { !3 };
        let register = |number: u64| number as u32 & 0x3_FFFF;
        let value = match control & 0xF {
            0 | 4 => {
                let high = if wide { self.register(register(source) + 1) } else { 0 };
                address(self.register(register(source)), high)
            }
            1 | 2 => cx.load(source & align, wide)?,
            5 => source,
            6 => self.atomic_result,
            9 => (cx.clock)(),
            other => return Err(Halt::unsupported(format!("COPY_DATA from source {other}"))),
        };
        match control >> 8 & 0xF {
            0 | 4 => {
                self.registers.insert(register(to), value as u32);
                if wide {
                    self.registers.insert(register(to) + 1, (value >> 32) as u32);
                }
            }
            2 | 5 => cx.store(to & align, value, wide)?,
            other => return Err(Halt::unsupported(format!("COPY_DATA to destination {other}"))),
        }
        Ok(PacketProgress::Next)
    }

    /// ATOMIC_MEM: once, or again and again until a comparison succeeds.
    pub(super) fn atomic_mem(
        &mut self,
        cx: &mut Context<'_>,
        control: u32,
        [at, source, compare]: [u64; 3],
    ) -> Result<PacketProgress, Halt> {
        const LOOP: u32 = 1;
        let atomic = Atomic { operation: control & 0x7F, address: at, source, compare };
        if !atomic.known() {
            return Err(Halt::unsupported(format!("ATOMIC_MEM of operation {:#x}", atomic.operation)));
        }
        self.atomic_result = atomic.execute(cx)?;
        let again = control >> 8 & 0xF == LOOP && !atomic.satisfied(self.atomic_result);
        Ok(if again { PacketProgress::Wait } else { PacketProgress::Next })
    }

    /// DMA_DATA: a copy or fill by the command processor.
    pub(super) fn dma_data(
        &mut self,
        control: u32,
        source: u64,
        to: u64,
        command: u32,
    ) -> Result<PacketProgress, Halt> {
        let from = match control >> 29 & 3 {
            0 | 3 => Source::Memory(source),
            2 => Source::Pattern(source as u32),
            other => return Err(Halt::unsupported(format!("DMA_DATA from source {other}"))),
        };
        if !matches!(control >> 20 & 3, 0 | 3) {
            return Err(Halt::unsupported(format!("DMA_DATA to destination {}", control >> 20 & 3)));
        }
        self.transfer = Some(Transfer { from, to, left: u64::from(command & 0x3FF_FFFF) });
        Ok(PacketProgress::Next)
    }
}
