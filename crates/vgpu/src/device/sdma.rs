//! The copy engine (SDMA 4.4).

use super::atomic::Atomic;
use super::context::{Context, Step, address, compares};
use super::errors::Halt;
use super::stream::Stream;
use super::transfer::{Rectangle, Source, Transfer};

/// Opcodes.
mod op {
    pub(super) const NOP: u32 = 0;
    pub(super) const COPY: u32 = 1;
    pub(super) const WRITE: u32 = 2;
    pub(super) const INDIRECT: u32 = 4;
    pub(super) const FENCE: u32 = 5;
    pub(super) const TRAP: u32 = 6;
    pub(super) const POLL: u32 = 8;
    pub(super) const COND_EXE: u32 = 9;
    pub(super) const ATOMIC: u32 = 10;
    pub(super) const FILL: u32 = 11;
    pub(super) const TIMESTAMP: u32 = 13;
    pub(super) const DUMMY_TRAP: u32 = 16;
}

/// Second byte of the header.
mod sub {
    pub(super) const LINEAR: u32 = 0;
    pub(super) const RECTANGLE: u32 = 4;
    pub(super) const GET_LOCAL: u32 = 1;
    pub(super) const GET_GLOBAL: u32 = 2;
}

/// A transfer that proceeds in pieces.
#[derive(Clone, Copy, Debug)]
enum Move {
    Linear(Transfer),
    Rectangle(Rectangle),
}

/// State of a copy queue.
#[derive(Clone, Debug)]
pub(crate) struct Sdma {
    pub(crate) ring: Stream,
    buffer: Option<Stream>,
    moving: Option<Move>,
    /// Storage for the packet's words.
    body: Vec<u32>,
}

enum PacketProgress {
    Next,
    Wait,
    Skip(u32),
    Call(Stream),
}

impl Sdma {
    pub(crate) fn new(ring: u64, bytes: u64) -> Self {
        Self { ring: Stream::ring(ring, bytes), buffer: None, moving: None, body: Vec::new() }
    }

    /// Returns whether a copy or an indirect buffer is unfinished.
    pub(crate) fn is_under_way(&self) -> bool {
        self.moving.is_some() || self.buffer.is_some_and(|buffer| buffer.left() > 0)
    }

    /// Executes the next packet, or continues a copy.
    pub(crate) fn step(&mut self, cx: &mut Context<'_>) -> Result<Step, Halt> {
        if let Some(moving) = &mut self.moving {
            let done = match moving {
                Move::Linear(transfer) => transfer.proceed(cx)?,
                Move::Rectangle(rectangle) => rectangle.proceed(cx)?,
            };
            if done {
                self.moving = None;
            }
            return Ok(Step::Done);
        }
        self.buffer = self.buffer.filter(|buffer| buffer.left() > 0);
        let stream = self.buffer.unwrap_or(self.ring);
        if stream.left() == 0 {
            return Ok(Step::Empty);
        }
        let header = stream.peek(cx, 0)?;
        let length = match length(header)? {
            Length::Fixed(length) => length,
            Length::Write if stream.left() < 4 => 4,
            Length::Write => 5 + u64::from(stream.peek(cx, 3)? & 0xF_FFFF),
        };
        if length > stream.left() {
            return if self.buffer.is_some() {
                Err(malformed(header, "reaches beyond its buffer"))
            } else {
                Ok(Step::Wait)
            };
        }
        let mut body = std::mem::take(&mut self.body);
        body.clear();
        if header & 0xFF != op::NOP {
            stream.read(cx, 1, length - 1, &mut body)?;
        }
        let verdict = self.execute(header, &body, cx);
        self.body = body;
        let (skipped, call) = match verdict? {
            PacketProgress::Wait => return Ok(Step::Wait),
            PacketProgress::Next => (0, None),
            PacketProgress::Skip(dwords) => (u64::from(dwords), None),
            PacketProgress::Call(buffer) => (0, Some(buffer)),
        };
        self.buffer.as_mut().unwrap_or(&mut self.ring).skip(length + skipped);
        if let Some(buffer) = call {
            if self.buffer.is_some() {
                return Err(malformed(header, "is a buffer inside a buffer"));
            }
            self.buffer = Some(buffer);
        }
        Ok(Step::Done)
    }

    fn execute(&mut self, header: u32, body: &[u32], cx: &mut Context<'_>) -> Result<PacketProgress, Halt> {
        match (header & 0xFF, body) {
            (op::NOP | op::DUMMY_TRAP, _) => {}
            (op::COPY, &[count, _, from, from_high, to, to_high]) => {
                let left = u64::from(count & 0x3FFF_FFFF) + 1;
                let (from, to) = (Source::Memory(address(from, from_high)), address(to, to_high));
                self.moving = Some(Move::Linear(Transfer { from, to, left }));
            }
            (op::COPY, words) => {
                let rectangle = Rectangle::decode(header, words);
                let rectangle =
                    rectangle.ok_or_else(|| malformed(header, "copies elements of a size that is not known"))?;
                self.moving = Some(Move::Rectangle(rectangle));
            }
            (op::WRITE, [to, to_high, _, data @ ..]) => {
                let to = address(to & !3, *to_high);
                for (n, value) in (0..).zip(data) {
                    cx.memory.write_u32(to.wrapping_add(4 * n), *value)?;
                }
            }
            (op::INDIRECT, &[low, high, size, ..]) => {
                return Ok(PacketProgress::Call(Stream::buffer(address(low, high), u64::from(size & 0xF_FFFF))));
            }
            (op::FENCE, &[to, to_high, value]) => cx.memory.write_u32(address(to & !3, to_high), value)?,
            (op::TRAP, [context]) => cx.interrupts.event(context & 0xFFF_FFFF),
            (op::POLL, &[low, high, reference, mask, _]) => {
                const MEMORY: u32 = 1 << 31;
                // Without it a register is meant: the flush of a host data path, which is not there.
                if header & MEMORY != 0 {
                    let value = cx.memory.read_u32(address(low & !3, high))? & mask;
                    if !compares(header >> 28, value.into(), reference.into()) {
                        return Ok(PacketProgress::Wait);
                    }
                }
            }
            (op::COND_EXE, &[low, high, reference, count]) => {
                let execute = cx.memory.read_u32(address(low & !3, high))? == reference;
                return Ok(PacketProgress::Skip(if execute { 0 } else { count & 0x3FFF }));
            }
            (op::ATOMIC, &[low, high, source, source_high, compare, compare_high, _]) => {
                return atomic(header, cx, [(low, high), (source, source_high), (compare, compare_high)]);
            }
            (op::FILL, &[to, to_high, value, count]) => {
                self.moving = Some(Move::Linear(fill(header, address(to, to_high), value, count)?));
            }
            (op::TIMESTAMP, &[to, to_high]) => {
                let now = (cx.clock)();
                cx.memory.write_u64(address(to & !7, to_high), now)?;
            }
            _ => return Err(malformed(header, "is not executed")),
        }
        Ok(PacketProgress::Next)
    }
}

fn atomic(header: u32, cx: &mut Context<'_>, operands: [(u32, u32); 3]) -> Result<PacketProgress, Halt> {
    const LOOP: u32 = 1 << 16;
    let [at, source, compare] = operands.map(|(low, high)| address(low, high));
    let atomic = Atomic { operation: header >> 25, address: at, source, compare };
    if !atomic.known() {
        return Err(malformed(header, "is an atomic that is not executed"));
    }
    let old = atomic.execute(cx)?;
    Ok(if header & LOOP != 0 && !atomic.satisfied(old) { PacketProgress::Wait } else { PacketProgress::Next })
}

/// Decodes a fill: the count is in bytes, less one element.
fn fill(header: u32, to: u64, value: u32, count: u32) -> Result<Transfer, Halt> {
    let count = u64::from(count & 0x3FFF_FFFF);
    let (pattern, left) = match header >> 30 {
        0 => (value & 0xFF, count + 1),
        2 => (value, (count & !3) + 4),
        _ => return Err(malformed(header, "fills with elements of a size that is not known")),
    };
    let pattern = if header >> 30 == 0 { pattern * 0x0101_0101 } else { pattern };
    Ok(Transfer { from: Source::Pattern(pattern), to, left })
}

/// Length of a packet.
enum Length {
    Fixed(u64),
    /// The fourth dword contains it.
    Write,
}

fn length(header: u32) -> Result<Length, Halt> {
    let length = match (header & 0xFF, header >> 8 & 0xFF) {
        (op::NOP, _) => 1 + u64::from(header >> 16 & 0x3FFF),
        (op::COPY, sub::LINEAR) => 7,
        (op::COPY, sub::RECTANGLE) => 13,
        (op::WRITE, sub::LINEAR) => return Ok(Length::Write),
        (op::INDIRECT, _) => 6,
        (op::FENCE, _) => 4,
        (op::TRAP | op::DUMMY_TRAP, _) => 2,
        (op::POLL, 0) => 6,
        (op::COND_EXE, _) => 5,
        (op::ATOMIC, _) => 8,
        (op::FILL, 0) => 5,
        (op::TIMESTAMP, sub::GET_LOCAL | sub::GET_GLOBAL) => 3,
        _ => return Err(malformed(header, "is not executed")),
    };
    Ok(Length::Fixed(length))
}

fn malformed(header: u32, why: &str) -> Halt {
    Halt::unsupported(format!("SDMA packet {header:#010x} {why}"))
}
