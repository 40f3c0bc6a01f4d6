//! Decoded code follows memory when it is told to, and runs of instructions end where they must.

use vgpu_isa::code::{Code, NoCode};
use vgpu_isa::inst::{Env, Stop, Target};
use vgpu_isa::memory::{Access, Fault, Mapping, Port, Space};
use vgpu_isa::run::{RunEnd, run};
use vgpu_isa::wave::{TTMP0, Wave, mode, status, trapsts};

const START: u64 = 0x4000;

const NOP: u32 = 0xBF80_0000;
const END: u32 = 0xBF81_0000;
const ICACHE_INV: u32 = 0xBF93_0000;
/// s_mov_b32 s1, literal
const MOV_LITERAL: u32 = 0xBE81_00FF;
/// s_branch -1: to itself
const LOOP: u32 = 0xBF82_FFFF;
/// s_setvskip 1, 0
const SKIP: u32 = 0xBF10_8081;
/// s_sethalt 1
const HALT: u32 = 0xBF8D_0001;
/// s_sendmsg sendmsg(MSG_INTERRUPT)
const INTERRUPT: u32 = 0xBF90_0001;

/// s_movk_i32 s1, value
fn movk(value: u16) -> u32 {
    0xB001_0000 | u32::from(value)
}

/// s_store_dword s1, s[2:3], 0x0
const STORE: [u32; 2] = [0xC042_0041, 0];

/// Memory that holds a program; the program may change it while it is mapped.
struct Program {
    words: Box<[u32]>,
}

impl Program {
    fn new(words: &[u32]) -> Self {
        Self { words: words.into() }
    }

    fn end(&self) -> u64 {
        START + 4 * self.words.len() as u64
    }

    fn space(&mut self, executable: bool) -> Space {
        let mut space = Space::new();
        let host = self.words.as_mut_ptr().cast();
        let mapping = Mapping { start: START, end: self.end(), host, writable: true, executable, guarded: false };
        // SAFETY: every test keeps the program until the space is gone.
        unsafe { space.insert(mapping) };
        space
    }
}

fn names(code: &Code, index: usize) -> Vec<&'static str> {
    code.run(index).insts.iter().map(|inst| inst.op.name).collect()
}

fn fault(address: u64, mapped: bool) -> NoCode {
    NoCode::Fault(Fault { address, access: Access::Execute, mapped })
}

#[test]
fn a_run_ends_with_the_first_instruction_that_may_leave_it() {
    let mut program = Program::new(&[NOP, movk(7), END, NOP]);
    let space = program.space(true);
    let mut code = Code::new(Target::Gfx942);
    let index = code.find(START, &mut Port::new(&space)).expect("code");
    assert_eq!(names(&code, index), ["s_nop", "s_movk_i32", "s_endpgm"]);
    assert_eq!(code.run(index).start, START);
    let inner = code.find(START + 4, &mut Port::new(&space)).expect("code");
    assert_eq!(names(&code, inner), ["s_movk_i32", "s_endpgm"]);
    assert_eq!(code.find(START, &mut Port::new(&space)), Ok(index));
}

#[test]
fn long_straight_code_is_cut_and_continues() {
    let mut words = vec![NOP; 300];
    words.push(END);
    let mut program = Program::new(&words);
    let space = program.space(true);
    let mut code = Code::new(Target::Gfx942);
    let first = code.find(START, &mut Port::new(&space)).expect("code");
    assert!(code.run(first).insts.len() < 300);
    let mut wave = Wave::new();
    wave.pc = START;
    let mut budget = 1000;
    assert_eq!(go(&mut wave, &mut code, &space, &mut budget), RunEnd::End);
    assert_eq!(budget, 1000 - 301);
}

fn go(wave: &mut Wave, code: &mut Code, space: &Space, budget: &mut u64) -> RunEnd {
    let mut lds = [];
    let mut env = Env { memory: Port::new(space), lds: &mut lds, clock: || 0, stop: None };
    run(wave, code, &mut env, budget)
}

#[test]
fn changed_code_is_seen_after_invalidation_only() {
    let mut program = Program::new(&[movk(1), END]);
    let space = program.space(true);
    let mut code = Code::new(Target::Gfx942);
    let s1_after = |code: &mut Code| {
        let mut wave = Wave::new();
        wave.pc = START;
        assert_eq!(go(&mut wave, code, &space, &mut 10), RunEnd::End);
        wave.s[1]
    };
    assert_eq!(s1_after(&mut code), 1);
    Port::new(&space).write_u32(START, movk(2)).expect("writable");
    assert_eq!(s1_after(&mut code), 1, "caches are not coherent");
    code.invalidate();
    assert_eq!(s1_after(&mut code), 2);
    code.invalidate();
    assert_eq!(s1_after(&mut code), 2, "what did not change stays");
}

#[test]
fn a_run_keeps_its_place_when_its_code_changes() {
    let mut program = Program::new(&[movk(1), END]);
    let space = program.space(true);
    let mut port = Port::new(&space);
    let mut code = Code::new(Target::Gfx942);
    let before = code.find(START, &mut port).expect("code");
    port.write_u32(START + 4, NOP).expect("writable");
    code.invalidate();
    let after = code.find(START, &mut port).expect("code");
    assert_eq!(before, after);
    assert_eq!(names(&code, after), ["s_movk_i32", "s_nop"]);
}

#[test]
fn code_may_invalidate_what_follows_it() {
    // The program overwrites the move that it has already decoded as part of the same run.
    let first = [STORE[0], STORE[1], ICACHE_INV, movk(1), END];
    let mut program = Program::new(&first);
    let space = program.space(true);
    let mut code = Code::new(Target::Gfx942);
    code.find(START + 12, &mut Port::new(&space)).expect("code");
    let mut wave = Wave::new();
    wave.pc = START;
    wave.s[1] = movk(9);
    wave.set_s64(2, START + 12);
    assert_eq!(go(&mut wave, &mut code, &space, &mut 10), RunEnd::End);
    assert_eq!(wave.s[1], 9);
}

#[test]
fn code_that_went_away_is_a_fault() {
    let mut program = Program::new(&[NOP, END]);
    let mut space = program.space(true);
    let mut code = Code::new(Target::Gfx942);
    code.find(START, &mut Port::new(&space)).expect("code");
    space.remove(START, START + 4);
    code.invalidate();
    for _ in 0..2 {
        assert_eq!(code.find(START, &mut Port::new(&space)), Err(fault(START, false)));
    }
    let space = program.space(true);
    code.find(START, &mut Port::new(&space)).expect("it came back");
}

#[test]
fn code_must_be_executable_and_whole() {
    let mut program = Program::new(&[NOP, MOV_LITERAL]);
    let end = program.end();
    let space = program.space(false);
    let mut code = Code::new(Target::Gfx942);
    assert_eq!(code.find(START, &mut Port::new(&space)), Err(fault(START, true)));
    assert_eq!(code.find(0, &mut Port::new(&space)), Err(fault(0, false)));
    let space = program.space(true);
    let index = code.find(START, &mut Port::new(&space)).expect("the first instruction is there");
    assert_eq!(names(&code, index), ["s_nop"]);
    assert_eq!(code.find(end - 4, &mut Port::new(&space)), Err(fault(end, false)), "the literal is missing");
}

#[test]
fn a_wave_stops_at_bytes_that_mean_nothing() {
    let mut program = Program::new(&[movk(3), 0xFFFF_FFFF]);
    let space = program.space(true);
    let mut wave = Wave::new();
    wave.pc = START;
    let mut budget = 10;
    let outcome = go(&mut wave, &mut Code::new(Target::Gfx942), &space, &mut budget);
    assert_eq!(outcome, RunEnd::Stopped(Stop::Illegal { mnemonic: None, words: [0xFFFF_FFFF, 0] }));
    assert_eq!((wave.pc, wave.s[1], budget), (START + 4, 3, 9));
}

#[test]
fn endless_loops_use_their_budget() {
    let mut program = Program::new(&[LOOP]);
    let space = program.space(true);
    let mut wave = Wave::new();
    wave.pc = START;
    let mut budget = 12345;
    assert_eq!(go(&mut wave, &mut Code::new(Target::Gfx942), &space, &mut budget), RunEnd::Budget);
    assert_eq!((budget, wave.pc), (0, START));
}

#[test]
fn a_fault_leaves_the_program_counter_at_its_instruction() {
    let mut program = Program::new(&[NOP, STORE[0], STORE[1], END]);
    let space = program.space(true);
    let mut wave = Wave::new();
    wave.pc = START;
    wave.set_s64(2, 0x10);
    let outcome = go(&mut wave, &mut Code::new(Target::Gfx942), &space, &mut 10);
    let fault = Fault { address: 0x10, access: Access::Write, mapped: false };
    assert_eq!(outcome, RunEnd::Stopped(Stop::Memory(fault)));
    assert_eq!(wave.pc, START + 4);
}

#[test]
fn skipping_starts_with_the_next_instruction_and_spares_scalar_ones() {
    let mut program = Program::new(&[SKIP, movk(4), END]);
    let space = program.space(true);
    let mut wave = Wave::new();
    wave.pc = START;
    assert_eq!(go(&mut wave, &mut Code::new(Target::Gfx942), &space, &mut 10), RunEnd::End);
    assert_eq!(wave.s[1], 4);
    assert_eq!(wave.mode() & mode::VSKIP, mode::VSKIP);
}

#[test]
fn halted_waves_do_not_run() {
    let mut program = Program::new(&[movk(5), HALT, movk(6), END]);
    let space = program.space(true);
    let mut code = Code::new(Target::Gfx942);
    let mut wave = Wave::new();
    wave.pc = START;
    let mut budget = 10;
    for _ in 0..3 {
        assert_eq!(go(&mut wave, &mut code, &space, &mut budget), RunEnd::Sleep);
        assert_eq!((wave.s[1], wave.pc, budget), (5, START + 8, 8));
    }
    wave.status &= !status::HALT;
    assert_eq!(go(&mut wave, &mut code, &space, &mut budget), RunEnd::End);
    assert_eq!(wave.s[1], 6);
}

#[test]
fn an_interrupt_is_handed_over_once() {
    let mut program = Program::new(&[INTERRUPT, END]);
    let space = program.space(true);
    let mut code = Code::new(Target::Gfx942);
    let mut wave = Wave::new();
    wave.pc = START;
    wave.s[124] = 0;
    assert_eq!(wave.take_interrupt(), None);
    assert_eq!(go(&mut wave, &mut code, &space, &mut 10), RunEnd::Sleep);
    assert_eq!(wave.take_interrupt(), Some(0));
    assert_eq!(wave.take_interrupt(), None);
    assert_eq!(go(&mut wave, &mut code, &space, &mut 10), RunEnd::End);
}

#[test]
fn a_wave_in_single_steps_stops_after_every_instruction_until_its_exception_is_cleared() {
    // s_branch 1: over the second s_movk_i32.
    let mut program = Program::new(&[movk(5), 0xBF82_0001, movk(6), NOP, END]);
    let space = program.space(true);
    let mut code = Code::new(Target::Gfx942);
    let mut wave = Wave::new();
    wave.pc = START;
    wave.set_mode(wave.mode() | mode::DEBUG_EN);
    for (pc, value) in [(START + 4, 5), (START + 12, 5), (START + 16, 5)] {
        let mut budget = 100;
        assert_eq!(go(&mut wave, &mut code, &space, &mut budget), RunEnd::Exception);
        assert_eq!((wave.pc, wave.s[1], budget), (pc, value, 99));
        assert_eq!(wave.trapsts, trapsts::TRAP_AFTER_INST);
        // Until the trap handler has seen it, nothing is executed.
        assert_eq!(go(&mut wave, &mut code, &space, &mut budget), RunEnd::Exception);
        assert_eq!((wave.pc, budget), (pc, 99));
        wave.trapsts = 0;
    }
    assert_eq!(go(&mut wave, &mut code, &space, &mut 100), RunEnd::End);
}

#[test]
fn a_trap_handler_is_not_stepped_and_returns_into_the_next_exception() {
    // s_rfe_b64 ttmp[0:1]
    let mut program = Program::new(&[movk(7), 0xBE80_1F6C, END]);
    let space = program.space(true);
    let mut code = Code::new(Target::Gfx942);
    let mut wave = Wave::new();
    wave.pc = START;
    wave.set_mode(wave.mode() | mode::DEBUG_EN);
    wave.status |= status::PRIV;
    wave.trapsts = trapsts::ILLEGAL_INST;
    wave.set_s64(TTMP0, START + 8);
    assert_eq!(go(&mut wave, &mut code, &space, &mut 100), RunEnd::Sleep);
    assert_eq!((wave.pc, wave.s[1], wave.is_privileged()), (START + 8, 7, false));
    assert_eq!(go(&mut wave, &mut code, &space, &mut 100), RunEnd::Exception);
    wave.status |= status::HALT;
    assert_eq!(go(&mut wave, &mut code, &space, &mut 100), RunEnd::Sleep);
}

#[test]
fn a_wave_that_traps_before_its_end_does_so_once() {
    let mut program = Program::new(&[movk(7), END]);
    let space = program.space(true);
    let mut code = Code::new(Target::Gfx942);
    let mut wave = Wave::new();
    wave.pc = START;
    wave.set_mode(wave.mode() | mode::TRAP_ON_END);
    assert_eq!(go(&mut wave, &mut code, &space, &mut 100), RunEnd::Exception);
    assert_eq!((wave.pc, wave.trapsts), (START + 4, trapsts::WAVE_END));
    wave.trapsts = 0;
    assert_eq!(go(&mut wave, &mut code, &space, &mut 100), RunEnd::End);
}
