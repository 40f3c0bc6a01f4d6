//! Memory that its owner took away: accesses report it instead of crashing.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::Once;

use vgpu_isa::decode::decode;
use vgpu_isa::guard;
use vgpu_isa::inst::{Env, Stop, Target};
use vgpu_isa::memory::{Access, Fault, Mapping, Port, Space};
use vgpu_isa::wave::Wave;

const PAGE: usize = 4096;
/// Where the pages are on the gpu.
const START: u64 = 0x10_0000;

/// Continues guarded copies; any other fault ends the process as usual.
extern "C" fn on_fault(signal: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes a valid context to a handler installed with SA_SIGINFO.
    let registers = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    let at = &mut registers[libc::REG_RIP as usize];
    match guard::recover(*at as usize) {
        Some(to) => *at = to as i64,
        // SAFETY: restores the default action, after which the fault happens again and ends the process.
        None => unsafe {
            libc::signal(signal, libc::SIG_DFL);
        },
    }
}

fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: an all-zero action is valid; the handler does nothing that is not allowed in one.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_fault as extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) as usize;
            action.sa_flags = libc::SA_SIGINFO;
            assert_eq!(libc::sigaction(libc::SIGSEGV, &action, ptr::null_mut()), 0);
            assert_eq!(libc::sigaction(libc::SIGBUS, &action, ptr::null_mut()), 0);
        }
    });
}

/// Two pages of which the second may be forbidden.
struct Pages(*mut u8);

impl Pages {
    fn new() -> Self {
        // SAFETY: a fresh anonymous mapping.
        let at = unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            libc::mmap(ptr::null_mut(), 2 * PAGE, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0)
        };
        assert_ne!(at, libc::MAP_FAILED);
        Self(at.cast())
    }

    /// An address space with the pages in it.
    fn space(&self) -> Space {
        let mut space = Space::new();
        let end = START + 2 * PAGE as u64;
        let mapping = Mapping { start: START, end, host: self.0, writable: true, executable: false, guarded: true };
        // SAFETY: guarded memory may go away.
        unsafe { space.insert(mapping) };
        space
    }

    fn protect_second(&self, protection: c_int) {
        // SAFETY: the page belongs to the mapping.
        let done = unsafe { libc::mprotect(self.0.add(PAGE).cast(), PAGE, protection) };
        assert_eq!(done, 0);
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: the pages are no longer used.
        unsafe { libc::munmap(self.0.cast(), 2 * PAGE) };
    }
}

#[test]
fn copies_report_missing_pages() {
    install();
    let pages = Pages::new();
    let mut bytes = [7_u8; 64];
    let edge = pages.0.wrapping_add(PAGE - 32);
    // SAFETY: the pages are there or the handler recovers.
    unsafe {
        assert!(guard::copy(edge, bytes.as_ptr(), 64));
        assert!(guard::copy(bytes.as_mut_ptr(), edge, 0));
        pages.protect_second(libc::PROT_NONE);
        assert!(!guard::copy(bytes.as_mut_ptr(), edge, 64));
        assert!(!guard::copy(edge, bytes.as_ptr(), 64));
        assert!(guard::copy(bytes.as_mut_ptr(), edge, 32), "the first page is still there");
        pages.protect_second(libc::PROT_READ);
        assert!(guard::copy(bytes.as_mut_ptr(), edge, 64));
        assert!(!guard::copy(edge, bytes.as_ptr(), 64), "readable is not writable");
    }
    assert_eq!(bytes, [7; 64]);
}

#[test]
fn other_faults_are_not_recovered() {
    assert_eq!(guard::recover(0), None);
    assert_eq!(guard::recover((copies_report_missing_pages as fn() as *const ()).addr()), None);
    assert_eq!(guard::recover((guard::copy as *const ()).addr()), None);
}

#[test]
fn ports_turn_missing_pages_into_faults() {
    install();
    let pages = Pages::new();
    let space = pages.space();
    let mut port = Port::new(&space);
    let second = START + PAGE as u64;
    assert_eq!(port.direct(START, 4, Access::Read), None, "guarded memory is never touched directly");
    port.write_u32(second, 41).expect("there");
    assert_eq!(port.atomic_u32(second, |old| old + 1), Ok(41));
    assert_eq!(port.read_u32(second), Ok(42));
    pages.protect_second(libc::PROT_NONE);
    let fault = |address, access| Fault { address, access, mapped: true };
    assert_eq!(port.read_u32(second), Err(fault(second, Access::Read)));
    assert_eq!(port.write_u64(second + 8, 1), Err(fault(second + 8, Access::Write)));
    assert_eq!(port.atomic_u32(second, |old| old + 1), Err(fault(second, Access::Write)));
    assert_eq!(port.atomic_u64(second, |old| old + 1), Err(fault(second, Access::Write)));
    assert_eq!(port.read_u32(START), Ok(0), "the rest is still there");
    pages.protect_second(libc::PROT_READ);
    assert_eq!(port.read_u32(second), Ok(42));
    assert_eq!(port.atomic_u32(second, |old| old + 1), Err(fault(second, Access::Write)), "readable is not writable");
    assert_eq!(port.atomic_u64(second, |old| old + 1), Err(fault(second, Access::Write)));
    pages.protect_second(libc::PROT_READ | libc::PROT_WRITE);
    assert_eq!(port.atomic_u64(second, |old| old + (1 << 32)), Ok(42));
    assert_eq!(port.read_u64(second), Ok(1 << 32 | 42));
    assert_eq!(port.atomic_u32(second + 2, |old| old), Err(fault(second + 2, Access::Write)), "misaligned");
}

/// Lanes that store one value after the other are all written, or else those below the first that cannot be.
#[test]
fn consecutive_stores_of_a_wave_end_where_pages_are_missing() {
    /// `global_store_dwordx4 v0, v[4:7], s[2:3]`, by llvm-mc-19.
    const STORE: [u32; 3] = [0xDC7C_8000, 0x0002_0400, 0];
    const VALUES: usize = 4 * 64;
    install();
    let pages = Pages::new();
    let space = pages.space();
    let inst = decode(STORE, Target::Gfx942).expect("a store");
    let second = START + PAGE as u64;
    let mut wave = Wave::new();
    // The upper half of the lanes reaches into the second page.
    wave.set_s64(2, second - 32 * 16);
    wave.set_exec(!0);
    wave.v[0] = std::array::from_fn(|lane| 16 * lane as u32);
    let first = pages.0.wrapping_add(PAGE - 32 * 16).cast::<u32>();
    for (round, protection, written) in [
        (1, libc::PROT_READ | libc::PROT_WRITE, VALUES),
        (2, libc::PROT_READ, VALUES / 2),
        (3, libc::PROT_NONE, VALUES / 2),
    ] {
        let expected = |value: usize| (1000 * round + value) as u32;
        for (part, register) in wave.v[4..8].iter_mut().enumerate() {
            *register = std::array::from_fn(|lane| expected(4 * lane + part));
        }
        pages.protect_second(protection);
        let mut env = Env { memory: Port::new(&space), lds: &mut [], clock: || 0, stop: None };
        // SAFETY: the handler came from the table, which chose it for this CPU.
        unsafe { (inst.handler)(&mut wave, &inst, &mut env) };
        let fault = Stop::Memory(Fault { address: second, access: Access::Write, mapped: true });
        assert_eq!(env.stop, (written < VALUES).then_some(fault), "round {round}");
        pages.protect_second(libc::PROT_READ);
        // SAFETY: the values lie in the two pages.
        let found: Vec<u32> = (0..VALUES).map(|value| unsafe { first.add(value).read_volatile() }).collect();
        assert_eq!(found[..written], (0..written).map(expected).collect::<Vec<_>>(), "round {round}");
        // The rest is as the first round left it.
        assert_eq!(found[written..], (written..VALUES).map(|value| (1000 + value) as u32).collect::<Vec<_>>());
    }
}
