//! The state in which the waves of a dispatch start.

use vgpu_isa::inst::Target;
use vgpu_isa::wave::{FLAT_SCRATCH, LANES, M0, TTMP0, Wave, status};

use super::kernel::Kernel;
use super::pool::Pool;
use super::slots::{CuPlacement, Need};
use super::workgroup::{WaveProgress, WorkgroupWave};

/// Description of a dispatch from which its waves are made.
#[derive(Clone, Debug)]
pub struct KernelLaunch {
    pub(crate) target: Target,
    pub(crate) kernel: Kernel,
    /// Work items of a full workgroup.
    pub(crate) size: [u32; 3],
    /// Work items of the last workgroup of each dimension.
    pub(crate) last: [u32; 3],
    /// First workgroup.
    pub(crate) start: [u32; 3],
    /// Workgroup after the last.
    pub(crate) end: [u32; 3],
    /// Values that the packet puts into the first scalar registers.
    pub(crate) user: Vec<u32>,
    /// Bytes of LDS of a workgroup.
    pub(crate) lds: u32,
    /// Bytes of private memory of a work item.
    pub(crate) scratch: u32,
    /// Position of the packet in its ring, which debuggers find in a trap temporary.
    pub(crate) slot: u64,
}

impl KernelLaunch {
    /// Returns the address of the kernel's first instruction.
    pub fn entry(&self) -> u64 {
        self.kernel.entry
    }

    /// Returns the work items of a workgroup: those at the far edges may be smaller.
    fn shape(&self, id: [u32; 3]) -> [u32; 3] {
        std::array::from_fn(|d| if id[d].wrapping_add(1) == self.end[d] { self.last[d] } else { self.size[d] })
    }

    /// Returns what a workgroup occupies.
    pub(crate) fn need(&self, id: [u32; 3]) -> Need {
        let items: u32 = self.shape(id).iter().product();
        Need {
            waves: items.div_ceil(LANES as u32),
            vgprs: self.kernel.vgprs().0,
            sgprs: self.kernel.sgprs(),
            lds: self.lds,
        }
    }

    /// Returns what the largest workgroup occupies.
    pub(crate) fn largest(&self) -> Need {
        let items: u32 = self.size.iter().product();
        Need { waves: items.div_ceil(LANES as u32), ..self.need(self.start) }
    }

    /// Returns the number of workgroups, or `None` if it cannot be counted.
    pub(crate) fn workgroups(&self) -> Option<u64> {
        (0..3).try_fold(1_u64, |count, d| count.checked_mul(u64::from(self.end[d].saturating_sub(self.start[d]))))
    }

    /// Returns the workgroup after `id`, x fastest.
    pub(crate) fn after(&self, mut id: [u32; 3]) -> [u32; 3] {
        for (d, number) in id.iter_mut().enumerate() {
            *number = number.wrapping_add(1);
            if *number < self.end[d] {
                break;
            }
            *number = self.start[d];
        }
        id
    }

    /// Returns the waves of a workgroup, ready for their first instruction.
    pub(crate) fn waves(&self, id: [u32; 3], place: &CuPlacement, pool: &mut Pool) -> Vec<WorkgroupWave> {
        let shape = self.shape(id);
        let items: u32 = shape.iter().product();
        let count = items.div_ceil(LANES as u32);
        (0..count)
            .map(|index| {
                let mut wave = pool.wave(self.scratch);
                self.prepare(&mut wave, id, index, count);
                self.locate(&mut wave, index, place);
                self.number_items(&mut wave, shape, index * LANES as u32);
                WorkgroupWave { wave, state: WaveProgress::Running }
            })
            .collect()
    }

    fn prepare(&self, wave: &mut Wave, id: [u32; 3], index: u32, count: u32) {
        let kernel = &self.kernel;
        // Preloading firmware skips 256 bytes in which the compiler loads the same arguments for firmware that does
        // not. To execute them is harmless, and right for kernels without them.
        wave.pc = kernel.entry;
        wave.set_mode(kernel.mode());
        wave.status = status::VALID | if count > 1 { status::IN_TG } else { 0 };
        self.allocate(wave, index);
        wave.s[M0] = 0;
        wave.set_s64(FLAT_SCRATCH, 0);
        let user = kernel.user_sgprs();
        for (n, register) in wave.s.iter_mut().enumerate().take(user) {
            *register = self.user.get(n).copied().unwrap_or(0);
        }
        let [x, y, z, info] = kernel.system_sgprs();
        // First wave, waves of the workgroup.
        let info_word = u32::from(index == 0) << 31 | count;
        let offset = kernel.private_segment() && self.target == Target::Gfx90a;
        let system = [(x, id[0]), (y, id[1]), (z, id[2]), (info, info_word), (offset, 0)];
        for (n, (_, value)) in system.into_iter().filter(|(enabled, _)| *enabled).enumerate() {
            wave.s[user + n] = value;
        }
        for (n, value) in id.into_iter().enumerate() {
            wave.s[TTMP0 + 8 + n] = value;
        }
        let packet = self.slot as u32 & 0x1FF_FFFF;
        match self.target {
            Target::Gfx942 => wave.s[TTMP0 + 11] = packet << 6 | index,
            Target::Gfx90a => {
                wave.s[TTMP0 + 6] = packet;
                wave.s[TTMP0 + 11] = index;
            }
        }
    }

    /// Writes the allocation into the wave.
    pub(crate) fn allocate(&self, wave: &mut Wave, index: u32) {
        let (vgprs, architectural) = self.kernel.vgprs();
        wave.vgprs = architectural as u16;
        wave.agprs = (vgprs - architectural) as u16;
        wave.sgprs = self.kernel.sgprs() as u16;
        wave.lds_size = self.lds;
        wave.index = index;
    }

    /// Writes the place into the wave (HW_ID: wave, SIMD, compute unit, shader engine).
    pub(crate) fn locate(&self, wave: &mut Wave, index: u32, place: &CuPlacement) {
        let simd = u32::from(place.simds[index as usize % place.simds.len()]);
        wave.hw_id = index & 0xF | simd << 4 | (place.unit & 0xF) << 8 | (place.engine & 7) << 13;
        wave.xcc_id = place.xcc;
    }

    /// Enables the lanes that have a work item and writes its number, packed as x, y, z of ten bits, to v0.
    fn number_items(&self, wave: &mut Wave, shape: [u32; 3], first: u32) {
        let items: u32 = shape.iter().product();
        let dimensions = self.kernel.item_dimensions();
        let left = items.saturating_sub(first).min(LANES as u32);
        wave.set_exec(if left == LANES as u32 { !0 } else { (1 << left) - 1 });
        let [width, height, depth] = shape.map(|d| d.max(1));
        if height == 1 && depth == 1 {
            for (n, lane) in (first..).zip(&mut wave.v[0]) {
                *lane = n;
            }
            return;
        }
        let (mut x, mut y, mut z) = (first % width, first / width % height, first / width / height);
        // A kernel that asks for x alone reads v0 without masking the other numbers away.
        let (y_on, z_on) = (u32::from(dimensions > 1), u32::from(dimensions > 2));
        for lane in &mut wave.v[0] {
            *lane = x | (y * y_on) << 10 | (z * z_on) << 20;
            x += 1;
            if x == width {
                x = 0;
                y += 1;
                if y == height {
                    y = 0;
                    z += 1;
                }
            }
        }
    }
}
