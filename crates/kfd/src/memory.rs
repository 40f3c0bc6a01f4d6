//! Memory of another process, by its addresses.
//!
//! A queue's ring, its read and write index and its save area lie in the memory of its owner, at the addresses of a
//! queue snapshot.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;

use crate::error::{Error, Result};
use crate::id::Pid;

/// The memory of one process. Stays with that process even if its number is used again.
#[derive(Debug)]
pub struct ProcessMemory {
    pid: Pid,
    file: File,
}

impl ProcessMemory {
    /// Opens the memory of a process, for reading and writing.
    ///
    /// # Errors
    ///
    /// If there is no such process, or this user may not trace it.
    pub fn open(pid: Pid) -> Result<ProcessMemory> {
        ProcessMemory::open_with(pid, OpenOptions::new().read(true).write(true))
    }

    /// Opens the memory of a process, for reading only.
    ///
    /// # Errors
    ///
    /// As [`ProcessMemory::open`].
    pub fn open_read_only(pid: Pid) -> Result<ProcessMemory> {
        ProcessMemory::open_with(pid, OpenOptions::new().read(true))
    }

    fn open_with(pid: Pid, options: &OpenOptions) -> Result<ProcessMemory> {
        let opened = options.open(format!("/proc/{pid}/mem"));
        let file = opened.map_err(|error| Error::Memory { action: "open", pid, address: 0, error })?;
        Ok(ProcessMemory { pid, file })
    }

    /// Returns whether the program that was opened still runs: it has neither ended nor executed another. Costs one
    /// system call.
    #[must_use]
    pub fn is_current(&self) -> bool {
        // The memory of an ended program reads as empty; any other gives a byte or an error.
        !matches!(self.file.read_at(&mut [0], 0), Ok(0))
    }

    /// Returns the process.
    #[must_use]
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Fills `bytes` with what lies at `address`.
    ///
    /// # Errors
    ///
    /// If nothing is mapped there, or the process is gone.
    pub fn read(&self, address: u64, bytes: &mut [u8]) -> Result<()> {
        self.explain("read", address, self.file.read_exact_at(bytes, address))
    }

    /// Reads the 64-bit number at `address`, such as the index of a ring.
    ///
    /// # Errors
    ///
    /// As [`ProcessMemory::read`].
    pub fn read_u64(&self, address: u64) -> Result<u64> {
        let mut bytes = [0; 8];
        self.read(address, &mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// Writes `bytes` to `address`, even where the process itself may only read.
    ///
    /// # Errors
    ///
    /// If nothing is mapped there, or the process is gone.
    pub fn write(&self, address: u64, bytes: &[u8]) -> Result<()> {
        self.explain("write", address, self.file.write_all_at(bytes, address))
    }

    fn explain(&self, action: &'static str, address: u64, result: io::Result<()>) -> Result<()> {
        result.map_err(|error| Error::Memory { action, pid: self.pid, address, error })
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};

    use super::*;

    #[test]
    fn memory_is_read_and_written_by_address() {
        let mut value: Box<u64> = Box::new(0x0123_4567_89ab_cdef);
        let address = (&raw mut *value).expose_provenance() as u64;
        let memory = ProcessMemory::open(Pid(std::process::id())).unwrap();
        assert_eq!(memory.read_u64(address).unwrap(), 0x0123_4567_89ab_cdef);
        memory.write(address, &7u64.to_le_bytes()).unwrap();
        assert_eq!(memory.read_u64(address).unwrap(), 7);
        assert_eq!(std::hint::black_box(*value), 7);
    }

    #[test]
    fn memory_ends_with_the_program_though_the_process_goes_on() {
        let script = "read line; exec sh -c 'echo executed; read line'";
        let mut command = std::process::Command::new("sh");
        command.args(["-c", script]).stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        let mut child = command.spawn().unwrap();
        let pid = Pid(child.id());
        let memory = ProcessMemory::open_read_only(pid).unwrap();
        assert!(memory.is_current());
        assert!(memory.write(8, &[0]).is_err());
        writeln!(child.stdin.as_mut().unwrap()).unwrap();
        let mut said = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut said).unwrap();
        assert_eq!(said, "executed\n");
        assert!(!memory.is_current());
        let next = ProcessMemory::open_read_only(pid).unwrap();
        assert!(next.is_current());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!next.is_current());
    }

    #[test]
    fn an_address_without_memory_is_named() {
        let memory = ProcessMemory::open(Pid(std::process::id())).unwrap();
        let said = memory.read_u64(8).unwrap_err().to_string();
        assert!(said.contains("at 0x8") && said.ends_with("nothing is mapped there"), "{said}");
    }

    #[test]
    fn a_process_that_does_not_exist_has_no_memory() {
        let error = ProcessMemory::open(Pid(u32::MAX >> 1)).unwrap_err();
        assert_eq!(error.errno(), Some(libc::ENOENT));
    }
}
