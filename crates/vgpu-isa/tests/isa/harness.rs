//! A machine with one wave, and cases that run one instruction on it.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use vgpu_isa::decode::decode;
use vgpu_isa::inst::{Env, Flow, Handler, Inst, Stop, Target};
use vgpu_isa::memory::{Mapping, Port, Space};
use vgpu_isa::wave::{Lanes, Wave};

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
}

impl Machine {
    /// Registers hold distinct rubbish, so that a wrong register shows.
    pub(crate) fn new() -> Self {
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
        Self { wave, memory, lds: vec![0; 65536], flow: Flow::Next, stop: None }
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
    pub(crate) fn run(&self, encodings: &HashMap<&str, Vec<u32>>) -> CaseResult {
        let Some(words) = encodings.get(self.asm.as_str()) else {
            return Err(format!(
                "{}: no encoding; run UPDATE_ENCODINGS=1 cargo test -p vgpu-isa --test isa -- --ignored",
                self.asm
            ));
        };
        let mut dwords = [0; 3];
        dwords[..words.len()].copy_from_slice(words);
        let inst = decode(dwords, Target::Gfx942).map_err(|illegal| format!("{}: {illegal:x?}", self.asm))?;
        if usize::from(inst.size) != words.len() * 4 {
            return Err(format!("{}: decoded {} bytes of {}", self.asm, inst.size, words.len() * 4));
        }
        let wide = vgpu_isa::table::is_wide().then_some(("wide", inst.op.wide));
        for (which, handler) in [("portable", inst.op.portable)].into_iter().chain(wide) {
            let mut machine = Machine::new();
            (self.setup)(&mut machine);
            let mut before = Machine::new();
            (self.setup)(&mut before);
            machine.execute(&inst, handler);
            (self.check)(&before, &machine).map_err(|wrong| format!("{} ({which}): {wrong}", self.asm))?;
        }
        // The form that the encoding has, which is not that of the operation for VOP3 forms of others.
        Ok(tested_form(dwords))
    }
}

/// Encoding and opcode of the dwords, read from the format's own bits.
fn tested_form(dwords: [u32; 3]) -> (&'static str, u16) {
    let inst = decode(dwords, Target::Gfx942).expect("decoded before");
    let vop3 = dwords[0] >> 26 == 0x34 && inst.op.encoding != vgpu_isa::inst::Encoding::Vop3p;
    if vop3 { ("VOP3", (dwords[0] >> 16 & 0x3FF) as u16) } else { (inst.op.encoding.name(), inst.op.opcode) }
}

/// The cases of one part of the instruction set.
pub(crate) struct Family {
    pub(crate) name: &'static str,
    pub(crate) cases: fn() -> Vec<Case>,
    pub(crate) encodings: &'static str,
    /// Of all cases, once they have run: two tests ask for them.
    results: OnceLock<Vec<CaseResult>>,
}

/// The opcode that a case executed, or what went wrong.
pub(crate) type CaseResult = Result<(&'static str, u16), String>;

impl Family {
    pub(crate) const fn new(name: &'static str, cases: fn() -> Vec<Case>, encodings: &'static str) -> Family {
        Family { name, cases, encodings, results: OnceLock::new() }
    }

    fn encodings(&self) -> HashMap<&'static str, Vec<u32>> {
        let parse = |line: &'static str| {
            let (hex, asm) = line.split_once(' ')?;
            let words = hex.split(',').map(|word| u32::from_str_radix(word, 16)).collect::<Result<_, _>>().ok()?;
            Some((asm, words))
        };
        self.encodings.lines().filter_map(parse).collect()
    }

    /// Every case with its result.
    pub(crate) fn results(&self) -> &[CaseResult] {
        self.results.get_or_init(|| {
            let encodings = self.encodings();
            (self.cases)().iter().map(|case| case.run(&encodings)).collect()
        })
    }

    /// Runs all cases and reports all failures.
    pub(crate) fn run(&self) {
        let failures: Vec<&str> = self.results().iter().filter_map(|r| r.as_ref().err().map(String::as_str)).collect();
        assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
    }

    /// Compares the committed encodings with llvm-mc's, or writes them.
    pub(crate) fn assemble(&self) {
        let mut asm: Vec<String> = (self.cases)().into_iter().map(|case| case.asm).collect();
        asm.sort();
        asm.dedup();
        let mut text = String::new();
        for (line, words) in asm.iter().zip(llvm_mc(&asm)) {
            let hex: Vec<String> = words.iter().map(|word| format!("{word:08x}")).collect();
            writeln!(text, "{} {line}", hex.join(",")).expect("strings take everything");
        }
        let path = format!("{}/tests/isa/encodings/{}.txt", env!("CARGO_MANIFEST_DIR"), self.name);
        if std::env::var_os("UPDATE_ENCODINGS").is_some() {
            std::fs::write(&path, text).expect("encodings can be written");
        } else {
            assert_eq!(text, self.encodings, "{path}: write it anew with UPDATE_ENCODINGS=1");
        }
    }
}

/// Assembles lines, one instruction each.
fn llvm_mc(lines: &[String]) -> Vec<Vec<u32>> {
    if lines.is_empty() {
        return Vec::new();
    }
    let mut child = Command::new("llvm-mc-19")
        .args(["-triple=amdgcn-amd-amdhsa", "-mcpu=gfx942", "-show-encoding"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("llvm-mc-19 is installed");
    let mut input = child.stdin.take().expect("piped");
    let text = lines.join("\n") + "\n";
    let writer = std::thread::spawn(move || input.write_all(text.as_bytes()));
    let output = child.wait_with_output().expect("llvm-mc-19 ends");
    writer.join().expect("no panic").expect("llvm-mc-19 reads");
    assert!(output.status.success(), "llvm-mc-19 refuses some lines");
    let stdout = String::from_utf8(output.stdout).expect("text");
    let encoded: Vec<Vec<u32>> = stdout
        .lines()
        .filter_map(|line| Some(line.split_once("encoding: [")?.1.trim_end_matches(']')))
        .map(|bytes| {
            let bytes: Vec<u8> =
                bytes.split(',').map(|b| u8::from_str_radix(b.trim_start_matches("0x"), 16).expect("hex")).collect();
            bytes.chunks(4).map(|c| u32::from_le_bytes(c.try_into().expect("dwords"))).collect()
        })
        .collect();
    assert_eq!(encoded.len(), lines.len(), "one encoding for each line");
    encoded
}

/// Fails unless `got` equals `want`.
pub(crate) fn same<T: PartialEq + std::fmt::Debug>(what: &str, got: T, want: T) -> Result<(), String> {
    if got == want { Ok(()) } else { Err(format!("{what}: got {got:x?}, expected {want:x?}")) }
}
