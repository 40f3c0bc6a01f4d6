//! What the cases of all memory instructions share: the whole state before and after, values, atomics.

pub(crate) mod atomics;
pub(crate) mod forms;
pub(crate) mod values;

use vgpu_isa::inst::{Flow, Stop};
use vgpu_isa::wave::Lanes;

use crate::harness::{Case, Machine, same};

/// Bytes of private memory of each lane in these cases.
pub(crate) const PRIVATE_SIZE: u32 = 512;

/// Everything an instruction may change.
pub(crate) struct State {
    pub(crate) v: Vec<Lanes>,
    pub(crate) a: Vec<Lanes>,
    pub(crate) s: Vec<u32>,
    pub(crate) memory: Vec<u8>,
    pub(crate) lds: Vec<u8>,
    pub(crate) private: Vec<u8>,
    pub(crate) stop: Option<Stop>,
}

/// Where a lane reaches.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    /// Byte of the machine's memory.
    Global(usize),
    /// Byte of LDS.
    Lds(usize),
    /// Byte of the lane's private memory.
    Private(usize),
}

impl Place {
    /// The place some bytes further.
    pub(crate) fn plus(self, bytes: usize) -> Self {
        match self {
            Self::Global(at) => Self::Global(at + bytes),
            Self::Lds(at) => Self::Lds(at + bytes),
            Self::Private(at) => Self::Private(at + bytes),
        }
    }
}

impl State {
    fn of(machine: &Machine) -> Self {
        Self {
            v: machine.wave.v.to_vec(),
            a: machine.wave.a.to_vec(),
            s: machine.wave.s.to_vec(),
            memory: machine.bytes(),
            lds: machine.lds.clone(),
            private: machine.wave.scratch.memory.to_vec(),
            stop: machine.stop.clone(),
        }
    }

    fn byte(&mut self, lane: usize, place: Place) -> &mut u8 {
        match place {
            Place::Global(at) => &mut self.memory[at],
            Place::Lds(at) => &mut self.lds[at],
            Place::Private(at) => &mut self.private[at / 4 * 256 + lane * 4 + at % 4],
        }
    }

    /// Bytes at a place.
    pub(crate) fn read(&mut self, lane: usize, place: Place, count: usize) -> Vec<u8> {
        (0..count).map(|n| *self.byte(lane, place.plus(n))).collect()
    }

    /// Changes bytes at a place.
    pub(crate) fn write(&mut self, lane: usize, place: Place, bytes: &[u8]) {
        for (n, value) in bytes.iter().enumerate() {
            *self.byte(lane, place.plus(n)) = *value;
        }
    }

    /// A register file.
    pub(crate) fn file(&mut self, accumulation: bool) -> &mut Vec<Lanes> {
        if accumulation { &mut self.a } else { &mut self.v }
    }

    /// Lanes that are on.
    pub(crate) fn active(&self) -> Vec<usize> {
        let exec = u64::from(self.s[126]) | u64::from(self.s[127]) << 32;
        (0..64).filter(|lane| exec >> lane & 1 == 1).collect()
    }
}

fn first_difference<T: PartialEq + std::fmt::Debug>(what: &str, got: &[T], want: &[T]) -> Result<(), String> {
    match got.iter().zip(want).position(|(got, want)| got != want) {
        Some(at) => same(&format!("{what}[{at:#x}]"), &got[at], &want[at]),
        None => same(&format!("length of {what}"), got.len(), want.len()),
    }
}

/// A case whose whole state after the instruction is known: `oracle` turns the state before into it.
pub(crate) fn whole(
    asm: impl Into<String>,
    setup: impl Fn(&mut Machine) + 'static,
    oracle: impl Fn(&mut State) + 'static,
) -> Case {
    let prepare = move |machine: &mut Machine| {
        machine.lds.iter_mut().enumerate().for_each(|(n, byte)| *byte = (n * 167 + n / 256 * 29) as u8);
        machine.wave.scratch.size = PRIVATE_SIZE;
        machine.wave.scratch.memory = (0..PRIVATE_SIZE * 64).map(|n| (n * 89 + n / 256 * 31) as u8).collect();
        setup(machine);
    };
    Case::new(asm, prepare, move |before, after| {
        let (mut want, got) = (State::of(before), State::of(after));
        oracle(&mut want);
        same("stop", &got.stop, &want.stop)?;
        same("flow", after.flow, if want.stop.is_some() { Flow::Stop } else { Flow::Next })?;
        for (what, got, want) in [("v", &got.v, &want.v), ("a", &got.a, &want.a)] {
            for register in 0..256 {
                first_difference(&format!("{what}{register}"), &got[register], &want[register])?;
            }
        }
        first_difference("s", &got.s, &want.s)?;
        first_difference("memory", &got.memory, &want.memory)?;
        first_difference("lds", &got.lds, &want.lds)?;
        first_difference("private", &got.private, &want.private)
    })
}

/// A tuple of `count` registers from `first` on, as the assembler writes it.
pub(crate) fn registers(file: char, first: usize, count: usize) -> String {
    if count == 1 { format!("{file}{first}") } else { format!("{file}[{first}:{}]", first + count - 1) }
}
