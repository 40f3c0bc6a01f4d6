//! Wave records and LDS that wait for their next use. A wave record is large; it is neither freed nor cleared.

use vgpu_isa::wave::Wave;

/// Most wave records kept: what the largest workgroups of some compute units need.
const WAVES_KEPT: usize = 256;
const LDS_KEPT: usize = 64;

/// Records for reuse.
#[derive(Default)]
pub(crate) struct Pool {
    waves: Vec<Box<Wave>>,
    lds: Vec<Vec<u8>>,
}

impl Pool {
    /// Returns a wave record with `scratch` bytes of private memory for each lane. The registers hold arbitrary values.
    pub(crate) fn wave(&mut self, scratch: u32) -> Box<Wave> {
        let mut wave = self.waves.pop().unwrap_or_else(Wave::new);
        wave.reset();
        let bytes = scratch as usize * vgpu_isa::wave::LANES;
        if wave.scratch.memory.len() != bytes {
            wave.scratch.memory = vec![0; bytes].into_boxed_slice();
        }
        wave.scratch.size = scratch;
        wave
    }

    /// Returns LDS of exactly so many bytes. It holds arbitrary values.
    pub(crate) fn lds(&mut self, bytes: u32) -> Vec<u8> {
        let mut lds = if bytes == 0 { Vec::new() } else { self.lds.pop().unwrap_or_default() };
        lds.resize(bytes as usize, 0);
        lds
    }

    pub(crate) fn give_wave(&mut self, wave: Box<Wave>) {
        if self.waves.len() < WAVES_KEPT {
            self.waves.push(wave);
        }
    }

    pub(crate) fn give_lds(&mut self, lds: Vec<u8>) {
        if !lds.is_empty() && self.lds.len() < LDS_KEPT {
            self.lds.push(lds);
        }
    }
}
