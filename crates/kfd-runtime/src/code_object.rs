//! Code objects: the ELF files that compilers make for gpus, and the kernels in them.

use kfd_abi::topology::GfxVersion;
use object::Endianness;
use object::elf::{self, FileHeader64};
use object::read::elf::{FileHeader, ProgramHeader, Rela, SectionHeader, Sym};

use crate::device::Device;
use crate::error::{Error, Result};
use crate::memory::{Buffer, GpuAddr, Placement};
use crate::queue::Queue;

type Header = FileHeader64<Endianness>;

/// Symbols of kernel descriptors end so.
const DESCRIPTOR_SUFFIX: &str = ".kd";
/// Bytes of a kernel descriptor.
const DESCRIPTOR_SIZE: usize = 64;
/// Field of the ELF flags that names the gpu (`EF_AMDGPU_MACH`), and two values of it.
const MACHINE: u32 = 0xFF;
const GFX90A: u32 = 0x3F;
const GFX942: u32 = 0x4C;
/// Relocations (`R_AMDGPU_ABS64`, `R_AMDGPU_RELATIVE64`): an address of a symbol, an address in the program.
const ABS64: u32 = 3;
const RELATIVE64: u32 = 13;
/// Bit of the descriptor's properties: the compiler does not know how deep the stack gets.
const DYNAMIC_STACK: u32 = 1 << 11;
/// Stack for such a kernel beyond what the compiler knows of.
const STACK_ALLOWANCE: u32 = 4096;
/// Largest program that is loaded; larger ones are broken files.
const MOST_BYTES: u64 = 1 << 30;

/// Errors of a code object.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodeObjectError {
    /// It is no ELF file, or breaks off.
    #[error("not a code object: {0}")]
    Malformed(String),
    /// It is an ELF file for something else.
    #[error("the ELF file is not a program for AMD gpus")]
    OtherMachine,
    /// It is for another gpu.
    #[error("the code object is for machine {found:#x}, the gpu {gpu} needs {wanted:#x}; compile with -mcpu={gpu}")]
    OtherGpu {
        /// Machine number of the file.
        found: u32,
        /// Machine number of the gpu.
        wanted: u32,
        /// Name of the gpu's instruction set.
        gpu: String,
    },
    /// It needs a fix-up this loader does not do.
    #[error("the code object has a relocation of type {0}, which is not supported")]
    Relocation(u32),
    /// There is no such kernel in it.
    #[error("the code object has no kernel `{name}`; it has {}", known.join(", "))]
    NoKernel {
        /// Name of the kernel.
        name: String,
        /// Kernels of the file.
        known: Vec<String>,
    },
}

impl From<object::Error> for CodeObjectError {
    fn from(error: object::Error) -> CodeObjectError {
        CodeObjectError::Malformed(error.to_string())
    }
}

/// The part of a kernel descriptor that a runtime reads. The gpu reads the rest itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// The kernel's name.
    pub name: String,
    /// Where the descriptor lies in the image.
    pub offset: u64,
    /// Where the first instruction lies in the image.
    pub entry: u64,
    /// Bytes of local memory of a workgroup.
    pub local_memory: u32,
    /// Bytes of scratch of a work-item, with an allowance where the compiler does not know them all.
    pub scratch_per_item: u32,
    /// Bytes of the argument block, hidden arguments included.
    pub argument_bytes: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Relocation {
    offset: usize,
    value: u64,
}

/// A program for a gpu, read and not yet loaded.
#[derive(Clone, Debug)]
pub struct CodeObject {
    machine: u32,
    image: Vec<u8>,
    descriptors: Vec<Descriptor>,
    relocations: Vec<Relocation>,
}

impl CodeObject {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// If it is not a code object, or one that needs more than this loader does.
    pub fn parse(file: &[u8]) -> Result<CodeObject, CodeObjectError> {
        let header = Header::parse(file)?;
        let endian = header.endian()?;
        if header.e_machine(endian) != elf::EM_AMDGPU || header.e_type(endian) != elf::ET_DYN {
            return Err(CodeObjectError::OtherMachine);
        }
        let image = load_segments(header, endian, file)?;
        let descriptors = find_descriptors(header, endian, file, &image)?;
        let relocations = find_relocations(header, endian, file, image.len())?;
        let machine = header.e_flags(endian).0 & MACHINE;
        Ok(CodeObject { machine, image, descriptors, relocations })
    }

    /// Returns the size of the program in memory, in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        self.image.len()
    }

    /// Returns the descriptors of its kernels.
    #[must_use]
    pub fn kernels(&self) -> &[Descriptor] {
        &self.descriptors
    }

    /// Returns the bytes to put at `base`, a multiple of the page size.
    #[must_use]
    pub fn image_at(&self, base: GpuAddr) -> Vec<u8> {
        let mut image = self.image.clone();
        for relocation in &self.relocations {
            let value = base.plus(relocation.value).0.to_le_bytes();
            if let Some(place) = image.get_mut(relocation.offset..relocation.offset + value.len()) {
                place.copy_from_slice(&value);
            }
        }
        image
    }

    /// Checks that the program is for this gpu.
    fn check_machine(&self, device: &Device) -> Result<(), CodeObjectError> {
        let gpu = device.node().gpu.gfx;
        let wanted = match gpu {
            GfxVersion::GFX942 => GFX942,
            GfxVersion::GFX90A => GFX90A,
            // Of others only the hardware knows whether it will do.
            _ => return Ok(()),
        };
        if self.machine == wanted {
            return Ok(());
        }
        Err(CodeObjectError::OtherGpu { found: self.machine, wanted, gpu: gpu.to_string() })
    }
}

/// A kernel that is loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// Where its descriptor lies.
    pub descriptor: GpuAddr,
    /// Bytes of local memory of a workgroup.
    pub local_memory: u32,
    /// Bytes of scratch of a work-item.
    pub scratch_per_item: u32,
    /// Bytes of the argument block.
    pub argument_bytes: u32,
}

/// A program in the memory of a gpu. Has to live as long as its kernels run.
#[derive(Debug)]
pub struct Executable {
    memory: Buffer,
    descriptors: Vec<Descriptor>,
}

impl Executable {
    /// Loads a program onto the gpu of a queue.
    ///
    /// # Errors
    ///
    /// If it is for another gpu, or there is no memory left.
    pub fn load(queue: &mut Queue, object: &CodeObject) -> Result<Executable> {
        let device = queue.device().clone();
        object.check_machine(&device)?;
        let mut memory = device.allocate(object.size(), Placement::Vram)?;
        let image = object.image_at(memory.address());
        memory.write(0, &image)?;
        device.flush_host_writes();
        // The addresses may have held other code, which caches would still know.
        queue.drop_code_caches()?;
        Ok(Executable { memory, descriptors: object.descriptors.clone() })
    }

    /// Returns a kernel by its name.
    ///
    /// # Errors
    ///
    /// If there is none of that name.
    pub fn kernel(&self, name: &str) -> Result<Kernel> {
        let Some(found) = self.descriptors.iter().find(|descriptor| descriptor.name == name) else {
            let known = self.descriptors.iter().map(|descriptor| descriptor.name.clone()).collect();
            return Err(Error::CodeObject(CodeObjectError::NoKernel { name: name.to_owned(), known }));
        };
        Ok(Kernel {
            descriptor: self.memory.address().plus(found.offset),
            local_memory: found.local_memory,
            scratch_per_item: found.scratch_per_item,
            argument_bytes: found.argument_bytes,
        })
    }
}

/// Lays the file's segments out as they will lie in memory.
fn load_segments(header: &Header, endian: Endianness, file: &[u8]) -> Result<Vec<u8>, CodeObjectError> {
    let outside = || CodeObjectError::Malformed("a segment lies outside the program".to_owned());
    let mut image = Vec::new();
    for segment in header.program_headers(endian, file)? {
        if segment.p_type(endian) != elf::PT_LOAD {
            continue;
        }
        let (start, length) = (segment.p_vaddr(endian), segment.p_memsz(endian));
        let end = start.checked_add(length).filter(|&end| end <= MOST_BYTES).ok_or_else(outside)?;
        let bytes = segment.data(endian, file).map_err(|()| outside())?;
        if image.len() < end as usize {
            image.resize(end as usize, 0);
        }
        let place = image.get_mut(start as usize..end as usize).and_then(|place| place.get_mut(..bytes.len()));
        place.ok_or_else(outside)?.copy_from_slice(bytes);
    }
    if image.is_empty() { Err(outside()) } else { Ok(image) }
}

/// Finds the kernels among the symbols.
fn find_descriptors(
    header: &Header,
    endian: Endianness,
    file: &[u8],
    image: &[u8],
) -> Result<Vec<Descriptor>, CodeObjectError> {
    let symbols = header.sections(endian, file)?.symbols(endian, file, elf::SHT_DYNSYM)?;
    let mut descriptors = Vec::new();
    for symbol in symbols.iter() {
        let name = String::from_utf8_lossy(symbol.name(endian, symbols.strings())?).into_owned();
        let Some(name) = name.strip_suffix(DESCRIPTOR_SUFFIX) else { continue };
        let offset = symbol.st_value(endian);
        let bytes = usize::try_from(offset).ok().and_then(|offset| image.get(offset..)?.get(..DESCRIPTOR_SIZE));
        let bytes = bytes.ok_or_else(|| CodeObjectError::Malformed(format!("kernel `{name}` has no descriptor")))?;
        let word =
            |at: usize| bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |word| u32::from_le_bytes(*word));
        let allowance = if word(56) & DYNAMIC_STACK != 0 { STACK_ALLOWANCE } else { 0 };
        let entry = u64::from(word(16)) | u64::from(word(20)) << 32;
        descriptors.push(Descriptor {
            name: name.to_owned(),
            offset,
            entry: offset.wrapping_add(entry),
            local_memory: word(0),
            scratch_per_item: word(4).saturating_add(allowance),
            argument_bytes: word(8),
        });
    }
    Ok(descriptors)
}

/// Collects the places that hold addresses.
fn find_relocations(
    header: &Header,
    endian: Endianness,
    file: &[u8],
    image: usize,
) -> Result<Vec<Relocation>, CodeObjectError> {
    let sections = header.sections(endian, file)?;
    let symbols = sections.symbols(endian, file, elf::SHT_DYNSYM)?;
    let mut relocations = Vec::new();
    for section in sections.iter() {
        // Only what the loader sees counts; the linker may have kept others for debuggers.
        let Some((entries, _)) = section.rela(endian, file)? else { continue };
        if section.sh_flags(endian).0 & elf::SHF_ALLOC.0 == 0 {
            continue;
        }
        for entry in entries {
            let addend = entry.r_addend(endian).cast_unsigned();
            let value = match entry.r_type(endian, false).0 {
                RELATIVE64 => addend,
                ABS64 => {
                    let symbol = symbols.symbol(object::SymbolIndex(entry.r_sym(endian, false) as usize))?;
                    symbol.st_value(endian).wrapping_add(addend)
                }
                other => return Err(CodeObjectError::Relocation(other)),
            };
            let offset = usize::try_from(entry.r_offset(endian)).ok();
            let inside = offset.filter(|offset| offset.checked_add(8).is_some_and(|end| end <= image));
            let missing = || CodeObjectError::Malformed("a relocation lies outside the program".to_owned());
            relocations.push(Relocation { offset: inside.ok_or_else(missing)?, value });
        }
    }
    Ok(relocations)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLES: &[u8] = include_bytes!("../../kfd-suite/kernels/gfx942/tables.hsaco");
    const SCRATCH: &[u8] = include_bytes!("../../kfd-suite/kernels/gfx942/scratch.hsaco");
    const REDUCE: &[u8] = include_bytes!("../../kfd-suite/kernels/gfx942/reduce.hsaco");

    #[test]
    fn descriptors_tell_what_the_kernels_need() {
        let object = CodeObject::parse(SCRATCH).unwrap();
        let [scratch] = object.kernels() else { panic!("{:?}", object.kernels()) };
        // The array has 128 words; two buffers and a count are passed.
        assert!(scratch.scratch_per_item >= 512, "{scratch:?}");
        assert_eq!((scratch.name.as_str(), scratch.local_memory, scratch.argument_bytes), ("scratch", 0, 20));
        let object = CodeObject::parse(REDUCE).unwrap();
        assert_eq!((object.kernels()[0].local_memory, object.machine), (1024, GFX942));
    }

    #[test]
    fn an_unknown_stack_gets_an_allowance() {
        let known = CodeObject::parse(SCRATCH).unwrap().kernels()[0].clone();
        let mut file = SCRATCH.to_vec();
        // Descriptors lie in the first segment, whose offsets in the file are those in memory.
        file[known.offset as usize + 57] |= (DYNAMIC_STACK >> 8) as u8;
        let unknown = CodeObject::parse(&file).unwrap().kernels()[0].clone();
        assert_eq!(unknown.scratch_per_item, known.scratch_per_item + STACK_ALLOWANCE);
    }

    #[test]
    fn kernels_start_on_a_cache_line_of_the_image() {
        for file in [TABLES, SCRATCH, REDUCE] {
            let object = CodeObject::parse(file).unwrap();
            let kernel = &object.kernels()[0];
            assert_eq!((kernel.offset % 64, kernel.entry % 256), (0, 0), "{kernel:?}");
            assert!((kernel.entry as usize) < object.size());
            let code = &object.image_at(GpuAddr(0))[kernel.entry as usize..];
            assert_ne!(code[..4], [0; 4]);
        }
    }

    #[test]
    fn relocated_words_hold_addresses_of_the_tables() {
        let object = CodeObject::parse(TABLES).unwrap();
        assert_eq!(object.relocations.len(), 3);
        let base = 0x7F00_0000_0000;
        let (here, there) = (object.image_at(GpuAddr(0)), object.image_at(GpuAddr(base)));
        for (relocation, first) in object.relocations.iter().zip([2u32, 0, 1]) {
            let word = |image: &[u8]| u64::from_le_bytes(image[relocation.offset..][..8].try_into().unwrap());
            assert_eq!(word(&there), word(&here) + base);
            // Each of them leads to the first entry of its table.
            assert_eq!(here[word(&here) as usize..][..4], first.to_le_bytes());
        }
        let changed = here.iter().zip(&there).filter(|(one, other)| one != other).count();
        assert!(changed <= 3 * 8, "{changed} bytes changed");
    }

    #[test]
    fn what_is_no_code_object_is_refused() {
        assert!(matches!(CodeObject::parse(b"no ELF file"), Err(CodeObjectError::Malformed(_))));
        let mut other = REDUCE.to_vec();
        other[18..20].copy_from_slice(&62u16.to_le_bytes());
        assert_eq!(CodeObject::parse(&other).unwrap_err(), CodeObjectError::OtherMachine);
    }

    #[test]
    fn broken_files_give_errors_and_nothing_worse() {
        for length in 0..TABLES.len() {
            // Most prefixes are refused; those that only lack section names at the end may pass.
            let _ = CodeObject::parse(&TABLES[..length]);
        }
        for position in 0..TABLES.len().min(0x300) {
            for value in [0, 0x7F, 0xFF] {
                let mut broken = TABLES.to_vec();
                broken[position] = value;
                if let Ok(object) = CodeObject::parse(&broken) {
                    let _ = object.image_at(GpuAddr(u64::MAX));
                }
            }
        }
        assert!(CodeObject::parse(&TABLES[..TABLES.len() / 2]).is_err());
    }
}
