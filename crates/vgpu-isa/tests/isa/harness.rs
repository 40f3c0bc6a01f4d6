//! A machine with one wave, and cases that run one instruction on it.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;
use std::sync::OnceLock;

use vgpu_isa::decode::decode;
use vgpu_isa::inst::{Env, Flow, Handler, Inst, Stop, Target};
use vgpu_isa::memory::{Mapping, Port, Space};
use vgpu_isa::wave::{Lanes, Wave};

use crate::llvm_mc;

/// GPU address of the machine's memory.
pub(crate) const MEMORY: u64 = 0x7000_0000_0000;
/// GPU address of the instruction.
pub(crate) const CODE: u64 = 0x1000_0000;
/// Bytes of memory.
pub(crate) const MEMORY_SIZE: usize = 1 << 16;

/// One wave with memory and LDS.
pub(crate) struct Machine {
    pub(crate) wave: Box<Wave>,
    pub(crate) memory: Vec<u64>,
    pub(crate) lds: Vec<u8>,
    /// What the last instruction returned.
    pub(crate) flow: Flow,
    /// Why it stopped, if it did.
    pub(crate) stop: Option<Stop>,
    /// Instruction set.
    pub(crate) target: Target,
}

impl Machine {
    /// Registers hold distinct rubbish, so that a wrong register shows.
    pub(crate) fn new(target: Target) -> Self {
        let mut wave = Wave::new();
        let mut seed = 0x1234_5678_u32;
        let mut next = || {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            seed
        };
        wave.v.iter_mut().chain(wave.a.iter_mut()).flatten().for_each(|lane| *lane = next());
        wave.s[..124].iter_mut().for_each(|s| *s = next());
        wave.pc = CODE;
        let memory = (0..MEMORY_SIZE as u64 / 8).map(|n| n.wrapping_mul(0x9E37_79B9_7F4A_7C15)).collect();
        Self { wave, memory, lds: vec![0; 65536], flow: Flow::Next, stop: None, target }
    }

    /// Memory as bytes.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.memory.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    /// A little-endian word of memory at a byte offset.
    pub(crate) fn u32_at(&self, offset: usize) -> u32 {
        let bytes = self.bytes();
        u32::from_le_bytes(bytes[offset..offset + 4].try_into().expect("four bytes"))
    }

    /// Writes bytes to memory.
    pub(crate) fn poke(&mut self, offset: usize, bytes: &[u8]) {
        for (n, byte) in bytes.iter().enumerate() {
            let (word, shift) = ((offset + n) / 8, (offset + n) % 8 * 8);
            self.memory[word] = self.memory[word] & !(0xFF << shift) | u64::from(*byte) << shift;
        }
    }

    /// Sets a vector register lane by lane.
    pub(crate) fn set_v(&mut self, register: usize, value: impl Fn(usize) -> u32) {
        self.wave.v[register] = std::array::from_fn(value);
    }

    /// Sets a pair of vector registers lane by lane.
    pub(crate) fn set_v64(&mut self, register: usize, value: impl Fn(usize) -> u64) {
        self.wave.v[register] = std::array::from_fn(|lane| value(lane) as u32);
        self.wave.v[register + 1] = std::array::from_fn(|lane| (value(lane) >> 32) as u32);
    }

    /// A vector register.
    pub(crate) fn v(&self, register: usize) -> &Lanes {
        &self.wave.v[register]
    }

    /// A lane of a pair of vector registers.
    pub(crate) fn v64(&self, register: usize, lane: usize) -> u64 {
        u64::from(self.wave.v[register][lane]) | u64::from(self.wave.v[register + 1][lane]) << 32
    }

    fn execute(&mut self, inst: &Inst, handler: Handler) {
        let mut space = Space::new();
        let mapping = Mapping {
            start: MEMORY,
            end: MEMORY + MEMORY_SIZE as u64,
            host: self.memory.as_mut_ptr().cast(),
            writable: true,
            executable: false,
            guarded: false,
        };
        // SAFETY: the vector outlives the space and nothing else uses it.
        unsafe { space.insert(mapping) };
        let mut env = Env { memory: Port::new(&space), lds: &mut self.lds, clock: || 42, stop: None };
        self.wave.pc += u64::from(inst.size);
        // SAFETY: the caller runs wide handlers only where the table says that this CPU has what they need.
        self.flow = unsafe { handler(&mut self.wave, inst, &mut env) };
        self.stop = env.stop.take();
    }
}

type Setup = Box<dyn Fn(&mut Machine)>;
type Check = Box<dyn Fn(&Machine, &Machine) -> Result<(), String>>;

/// One instruction, the state before, and what must hold after.
pub(crate) struct Case {
    asm: String,
    setup: Setup,
    check: Check,
}

impl Case {
    /// `check` gets the machine before and after.
    pub(crate) fn new(
        asm: impl Into<String>,
        setup: impl Fn(&mut Machine) + 'static,
        check: impl Fn(&Machine, &Machine) -> Result<(), String> + 'static,
    ) -> Self {
        Self { asm: asm.into(), setup: Box::new(setup), check: Box::new(check) }
    }

    /// Runs with both kinds of handlers; the opcode that was executed, or what went wrong.
    fn run(&self, words: Option<&Vec<u32>>, target: Target) -> CaseResult {
        let Some(words) = words else {
            return Err(format!(
                "{}: no encoding; run UPDATE_ENCODINGS=1 cargo test -p vgpu-isa --test isa -- --ignored",
                self.asm
            ));
        };
        let mut dwords = [0; 3];
        dwords[..words.len()].copy_from_slice(words);
        let inst = decode(dwords, target).map_err(|illegal| format!("{}: {illegal:x?}", self.asm))?;
        if usize::from(inst.size) != words.len() * 4 {
            return Err(format!("{}: decoded {} bytes of {}", self.asm, inst.size, words.len() * 4));
        }
        let modified = inst.op.modified.filter(|_| !inst.plain);
        let [portable, wide] = modified.unwrap_or([inst.op.portable, inst.op.wide]);
        let wide = vgpu_isa::table::is_wide().then_some(("wide", wide));
        for (which, handler) in [("portable", portable)].into_iter().chain(wide) {
            let mut machine = Machine::new(target);
            (self.setup)(&mut machine);
            let mut before = Machine::new(target);
            (self.setup)(&mut before);
            machine.execute(&inst, handler);
            (self.check)(&before, &machine).map_err(|wrong| format!("{} ({which}): {wrong}", self.asm))?;
        }
        // The form that the encoding has, which is not that of the operation for VOP3 forms of others.
        Ok(tested_form(&inst))
    }
}

/// Encoding and opcode, read from the format's own bits.
fn tested_form(inst: &Inst) -> (&'static str, u16) {
    let vop3 = inst.words[0] >> 26 == 0x34 && inst.op.encoding != vgpu_isa::inst::Encoding::Vop3p;
    if vop3 { ("VOP3", (inst.words[0] >> 16 & 0x3FF) as u16) } else { (inst.op.encoding.name(), inst.op.opcode) }
}

/// The cases of one part of the instruction set.
pub(crate) struct Family {
    pub(crate) name: &'static str,
    cases: fn() -> Vec<Case>,
    encodings: &'static str,
    /// The target whose encodings these are. Cases of gfx942 run on gfx90a as well, unless it lacks the instruction.
    target: Target,
    /// Of all cases, by target, once they have run: two tests ask for them.
    results: [OnceLock<Vec<CaseResult>>; 2],
}

/// The opcode that a case executed, or what went wrong.
pub(crate) type CaseResult = Result<(&'static str, u16), String>;

/// Encodings of gfx90a that are not those of gfx942: none (`-`), or others.
const DIFFERENCES: &str = include_str!("encodings/differences.txt");

/// Encodings by text; none where the target has no such instruction.
type Encodings = HashMap<&'static str, Option<Vec<u32>>>;

fn parse(list: &'static str) -> Encodings {
    let line = |line: &'static str| {
        let (hex, asm) = line.split_once(' ')?;
        let words = hex.split(',').map(|word| u32::from_str_radix(word, 16)).collect::<Result<_, _>>().ok();
        Some((asm, words))
    };
    list.lines().filter_map(line).collect()
}

impl Family {
    pub(crate) const fn new(
        name: &'static str,
        target: Target,
        cases: fn() -> Vec<Case>,
        encodings: &'static str,
    ) -> Family {
        Family { name, cases, encodings, target, results: [const { OnceLock::new() }; 2] }
    }

    fn encodings(&self, target: Target) -> Encodings {
        let mut encodings = parse(self.encodings);
        if target != self.target {
            let differences = parse(DIFFERENCES);
            for (asm, words) in &mut encodings {
                if let Some(other) = differences.get(asm) {
                    words.clone_from(other);
                }
            }
        }
        encodings
    }

    /// Every case with its result; none if the target has none of them.
    pub(crate) fn results(&self, target: Target) -> &[CaseResult] {
        self.results[target as usize].get_or_init(|| {
            if self.target == Target::Gfx90a && target != self.target {
                return Vec::new();
            }
            let encodings = self.encodings(target);
            let exists = |case: &&Case| encodings.get(case.asm.as_str()).is_none_or(Option::is_some);
            let run = |case: &Case| case.run(encodings.get(case.asm.as_str()).and_then(Option::as_ref), target);
            (self.cases)().iter().filter(exists).map(run).collect()
        })
    }

    /// Runs all cases and reports all failures.
    pub(crate) fn run(&self, target: Target) {
        let results = self.results(target);
        let failures: Vec<&str> = results.iter().filter_map(|r| r.as_ref().err().map(String::as_str)).collect();
        assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
    }

    /// The instructions of all cases.
    fn texts(&self) -> Vec<String> {
        let mut asm: Vec<String> = (self.cases)().into_iter().map(|case| case.asm).collect();
        asm.sort();
        asm.dedup();
        asm
    }

    /// Compares the committed encodings with llvm-mc's, or writes them.
    pub(crate) fn assemble(&self) {
        let asm = self.texts();
        let mut text = String::new();
        for (line, words) in asm.iter().zip(llvm_mc::assemble(&asm, self.target)) {
            let words = words.unwrap_or_else(|| panic!("llvm-mc-19 refuses {line}"));
            writeln!(text, "{} {line}", hex(&words)).expect("strings take everything");
        }
        compare(&format!("tests/isa/encodings/{}.txt", self.name), self.encodings, &text, "UPDATE_ENCODINGS");
    }

    /// What gfx90a encodes differently.
    fn differences(&self) -> String {
        let asm = self.texts();
        let old: Vec<String> = asm.iter().map(|line| for_gfx90a(line)).collect();
        let mut text = String::new();
        let both = llvm_mc::assemble(&asm, Target::Gfx942).into_iter().zip(llvm_mc::assemble(&old, Target::Gfx90a));
        for (line, (here, there)) in asm.iter().zip(both) {
            if here != there {
                let there = there.map_or("-".to_owned(), |words| hex(&words));
                writeln!(text, "{there} {line}").expect("strings take everything");
            }
        }
        text
    }
}

/// The bits of cache policy have other names on gfx90a, in the same places.
fn for_gfx90a(asm: &str) -> String {
    let word = |word| match word {
        "sc0" => "glc",
        "sc1" => "scc",
        "nt" => "slc",
        word => word,
    };
    asm.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

/// Compares the list of differences with llvm-mc's, or writes it.
pub(crate) fn assemble_differences(families: &[Family]) {
    let text: String = families.iter().filter(|f| f.target == Target::Gfx942).map(Family::differences).collect();
    compare("tests/isa/encodings/differences.txt", DIFFERENCES, &text, "UPDATE_ENCODINGS");
}

/// Fails unless a committed list is this text; writes it if the variable is set.
pub(crate) fn compare(file: &str, committed: &str, text: &str, variable: &str) {
    let path = format!("{}/{file}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os(variable).is_some() {
        std::fs::write(&path, text).expect("the list can be written");
        return;
    }
    let (old, new): (BTreeSet<&str>, BTreeSet<&str>) = (committed.lines().collect(), text.lines().collect());
    let differences: Vec<&&str> = old.symmetric_difference(&new).collect();
    assert!(differences.is_empty(), "write {file} anew with {variable}=1: {differences:?}");
}

fn hex(words: &[u32]) -> String {
    words.iter().map(|word| format!("{word:08x}")).collect::<Vec<_>>().join(",")
}

/// Fails unless `got` equals `want`.
pub(crate) fn same<T: PartialEq + std::fmt::Debug>(what: &str, got: T, want: T) -> Result<(), String> {
    if got == want { Ok(()) } else { Err(format!("{what}: got {got:x?}, expected {want:x?}")) }
}
