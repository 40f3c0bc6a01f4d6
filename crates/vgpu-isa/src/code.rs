//! Decoded code: straight runs of instructions, found by address.
//!
//! Decoding happens once. A device that is told to invalidate its instruction cache does not throw the runs away: it
//! compares their bytes with memory when they are next entered, and decodes again what changed.

use std::collections::HashMap;

use crate::decode::{Illegal, MAX_DWORDS, decode};
use crate::inst::{Encoding, Inst, Target};
use crate::memory::{Access, Fault, Port};

/// Instructions that follow each other, up to and including the first that may leave the run.
#[derive(Debug)]
pub struct Run {
    /// Address of the first instruction.
    pub start: u64,
    /// At least one.
    pub insts: Box<[Inst]>,
    /// What memory held when they were decoded.
    bytes: Box<[u8]>,
    /// Generation in which the bytes were last compared with memory.
    checked: u64,
}

/// Why there is no instruction at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoCode {
    /// The fetch failed.
    Fault(Fault),
    /// The bytes are no instruction.
    Illegal(Illegal),
}

const LONGEST: usize = 64;
const SLOTS: usize = 1024;

/// The decoded code of one address space.
#[derive(Debug)]
pub struct Code {
    target: Target,
    runs: Vec<Run>,
    by_address: HashMap<u64, usize>,
    /// Direct-mapped: address and run, for the current generation only.
    recent: Box<[(u64, usize); SLOTS]>,
    generation: u64,
}

impl Code {
    /// Creates an empty cache of decoded code.
    pub fn new(target: Target) -> Self {
        let recent = Box::new([(u64::MAX, 0); SLOTS]);
        Self { target, runs: Vec::new(), by_address: HashMap::new(), recent, generation: 0 }
    }

    /// Instruction set.
    pub fn target(&self) -> Target {
        self.target
    }

    /// Marks all code as possibly outdated: runs are compared with memory when they are next entered.
    pub fn invalidate(&mut self) {
        self.generation += 1;
        self.recent.fill((u64::MAX, 0));
    }

    /// Returns the position of the run that starts at `pc`; decodes it if necessary.
    #[inline(always)]
    pub fn find(&mut self, pc: u64, memory: &mut Port<'_>) -> Result<usize, NoCode> {
        let slot = (pc >> 2) as usize % SLOTS;
        let (address, run) = self.recent[slot];
        if address == pc {
            return Ok(run);
        }
        self.look_up(pc, slot, memory)
    }

    /// Returns a run by position.
    #[inline(always)]
    pub fn run(&self, index: usize) -> &Run {
        &self.runs[index]
    }

    #[inline(never)]
    fn look_up(&mut self, pc: u64, slot: usize, memory: &mut Port<'_>) -> Result<usize, NoCode> {
        let index = match self.by_address.get(&pc) {
            Some(&index) => {
                if self.runs[index].checked != self.generation {
                    self.verify(index, memory)?;
                }
                index
            }
            None => {
                let run = self.decode(pc, memory)?;
                self.runs.push(run);
                self.by_address.insert(pc, self.runs.len() - 1);
                self.runs.len() - 1
            }
        };
        self.recent[slot] = (pc, index);
        Ok(index)
    }

    fn verify(&mut self, index: usize, memory: &mut Port<'_>) -> Result<(), NoCode> {
        let run = &self.runs[index];
        let mut now = vec![0; run.bytes.len()];
        let same = memory.fetch(run.start, &mut now, Access::Execute).is_ok() && *now == *run.bytes;
        if same {
            self.runs[index].checked = self.generation;
        } else {
            self.runs[index] = self.decode(self.runs[index].start, memory)?;
        }
        Ok(())
    }

    fn decode(&self, start: u64, memory: &mut Port<'_>) -> Result<Run, NoCode> {
        let mut insts = Vec::new();
        let mut bytes = Vec::new();
        let mut pc = start;
        while insts.len() < LONGEST {
            let (words, end) = match fetch(pc, memory) {
                Ok(fetched) => fetched,
                // What was decoded before the end of memory may leave the run before it gets there.
                Err(_) if !insts.is_empty() => break,
                Err(fault) => return Err(NoCode::Fault(fault)),
            };
            let inst = match decode(words, self.target) {
                Ok(inst) => inst,
                Err(_) if !insts.is_empty() => break,
                Err(illegal) => return Err(NoCode::Illegal(illegal)),
            };
            match end {
                Some(fault) if fault.address.wrapping_sub(pc) < u64::from(inst.size) => {
                    if insts.is_empty() {
                        return Err(NoCode::Fault(fault));
                    }
                    break;
                }
                _ => {}
            }
            for word in &words[..usize::from(inst.size) / 4] {
                bytes.extend_from_slice(&word.to_le_bytes());
            }
            pc = pc.wrapping_add(u64::from(inst.size));
            insts.push(inst);
            if leaves(&inst) {
                break;
            }
        }
        Ok(Run { start, insts: insts.into(), bytes: bytes.into(), checked: self.generation })
    }
}

/// Dwords at `pc` and, if memory ends among them, where. Those after the end are zero; the first must exist.
fn fetch(pc: u64, memory: &mut Port<'_>) -> Result<([u32; MAX_DWORDS], Option<Fault>), Fault> {
    let mut words = [0; MAX_DWORDS];
    for (n, word) in words.iter_mut().enumerate() {
        let mut bytes = [0; 4];
        match memory.fetch(pc.wrapping_add(4 * n as u64), &mut bytes, Access::Execute) {
            Ok(()) => *word = u32::from_le_bytes(bytes),
            Err(fault) if n == 0 => return Err(fault),
            Err(fault) => return Ok((words, Some(fault))),
        }
    }
    Ok((words, None))
}

/// Returns whether the instruction may be followed by another than the next in memory.
fn leaves(inst: &Inst) -> bool {
    let opcode = inst.op.opcode;
    match inst.op.encoding {
        // Branches, end, barrier, sleep, traps, halt, instruction cache.
        Encoding::Sopp => !matches!(opcode, 0 | 12 | 15 | 16 | 20 | 21 | 22 | 28 | 29),
        // s_setpc_b64, s_swappc_b64, s_rfe_b64, s_cbranch_join
        Encoding::Sop1 => matches!(opcode, 29..=31 | 46),
        // s_cbranch_g_fork, s_rfe_restore_b64
        Encoding::Sop2 => matches!(opcode, 41 | 43),
        // s_cbranch_i_fork, s_call_b64
        Encoding::Sopk => matches!(opcode, 16 | 21),
        _ => false,
    }
}
