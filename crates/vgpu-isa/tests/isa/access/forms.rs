//! Ways to address memory: operands, the registers they need, and where each lane is meant to reach.

use std::rc::Rc;

use vgpu_isa::inst::Stop;

use super::atomics::Atomic;
use super::values::{Load, Store};
use super::{Place, registers, whole};
use crate::harness::{Case, Machine};

/// Lanes of partial cases.
pub(crate) const SOME: u64 = 0xDEAD_BEEF_0F0F_1234;

type Setup = Rc<dyn Fn(&mut Machine)>;
type Places = Rc<dyn Fn(usize) -> Place>;

/// One way to address memory. Data is in registers from 8 on.
#[derive(Clone)]
pub(crate) struct Form {
    /// The vector operand.
    pub(crate) vector: &'static str,
    /// What follows the operands.
    pub(crate) tail: &'static str,
    /// Lanes that are on.
    pub(crate) exec: u64,
    /// Data is in accumulation registers.
    pub(crate) accumulation: bool,
    /// First data register.
    pub(crate) data: usize,
    setup: Setup,
    places: Places,
}

impl Form {
    /// All lanes on, data from v8 on.
    pub(crate) fn new(
        vector: &'static str,
        tail: &'static str,
        setup: impl Fn(&mut Machine) + 'static,
        places: impl Fn(usize) -> Place + 'static,
    ) -> Self {
        let (setup, places) = (Rc::new(setup), Rc::new(places));
        Self { vector, tail, exec: !0, accumulation: false, data: 8, setup, places }
    }

    /// With these lanes on. The others get addresses that must not be touched.
    pub(crate) fn exec(mut self, exec: u64) -> Self {
        let setup = self.setup;
        self.exec = exec;
        self.setup = Rc::new(move |machine| {
            setup(machine);
            machine.wave.set_exec(exec);
            for lane in (0..64).filter(|lane| exec >> lane & 1 == 0) {
                machine.wave.v[2][lane] = 0xFFFF_FFF0;
                machine.wave.v[3][lane] = 0x1234_5678;
            }
        });
        self
    }

    /// Data in accumulation registers.
    pub(crate) fn accumulation(mut self) -> Self {
        self.accumulation = true;
        self
    }

    /// Data in other registers.
    pub(crate) fn data(mut self, first: usize) -> Self {
        self.data = first;
        self
    }

    fn tuple(&self, first: usize, count: usize) -> String {
        registers(if self.accumulation { 'a' } else { 'v' }, first, count)
    }

    /// `name data, vector tail`.
    pub(crate) fn load(&self, name: &str, load: Load) -> Case {
        let form = self.clone();
        let asm = format!("{name} {}, {}{}", self.tuple(self.data, load.registers), self.vector, self.tail);
        let setup = self.setup.clone();
        whole(
            asm,
            move |machine| setup(machine),
            move |state| load.apply(state, form.accumulation, form.data, &*form.places),
        )
    }

    /// `name vector, data tail`, or with data first.
    pub(crate) fn store(&self, name: &str, store: Store, data_first: bool) -> Case {
        let form = self.clone();
        let data = self.tuple(self.data, store.registers);
        let asm = if data_first {
            format!("{name} {data}, {}{}", self.vector, self.tail)
        } else {
            format!("{name} {}, {data}{}", self.vector, self.tail)
        };
        let setup = self.setup.clone();
        whole(
            asm,
            move |machine| setup(machine),
            move |state| store.apply(state, form.accumulation, form.data, &*form.places),
        )
    }

    /// An atomic given its whole assembler text.
    pub(crate) fn atomic(&self, asm: String, atomic: Atomic, data: [usize; 2], dst: Option<usize>) -> Case {
        let form = self.clone();
        let (setup, places) = (self.setup.clone(), self.places.clone());
        whole(
            asm,
            move |machine| {
                atomic.prepare(machine, form.accumulation, data, &*places);
                setup(machine);
            },
            {
                let form = self.clone();
                move |state| atomic.apply(state, form.accumulation, data, dst, &*form.places)
            },
        )
    }

    /// The operands of an atomic of FLAT, GLOBAL or MUBUF, which lie together.
    pub(crate) fn operands(&self, atomic: &Atomic) -> String {
        self.tuple(self.data, atomic.operands * atomic.size / 4)
    }

    /// Register names for `count` registers from `first` on.
    pub(crate) fn named(&self, first: usize, count: usize) -> String {
        self.tuple(first, count)
    }
}

/// An instruction that stops the wave and changes nothing.
pub(crate) fn stops(asm: &str, setup: impl Fn(&mut Machine) + 'static, why: Stop) -> Case {
    whole(asm, setup, move |state| state.stop = Some(why.clone()))
}
