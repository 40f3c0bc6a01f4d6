//! Writing a cpio archive in the form that the kernel unpacks as its first file system (`newc`, uncompressed).
//!
//! Source: the kernel's Documentation/driver-api/early-userspace/buffer-format.rst.

use std::collections::BTreeSet;

const DIRECTORY: u32 = 0o040_755;
const FILE: u32 = 0o100_644;
const EXECUTABLE: u32 = 0o100_755;
const LINK: u32 = 0o120_777;
const DEVICE: u32 = 0o020_600;

/// An archive. Directories of files that are added come by themselves.
#[derive(Default)]
pub(super) struct Archive {
    bytes: Vec<u8>,
    names: BTreeSet<String>,
    entries: u32,
}

impl Archive {
    /// Adds a directory.
    pub(super) fn directory(&mut self, name: &str) {
        self.parents(name);
        self.add(name, DIRECTORY, 0, b"");
    }

    /// Adds a file.
    pub(super) fn file(&mut self, name: &str, executable: bool, content: &[u8]) {
        self.parents(name);
        self.add(name, if executable { EXECUTABLE } else { FILE }, 0, content);
    }

    /// Adds a symbolic link.
    pub(super) fn link(&mut self, name: &str, target: &str) {
        self.parents(name);
        self.add(name, LINK, 0, target.as_bytes());
    }

    /// Adds a character device.
    pub(super) fn device(&mut self, name: &str, major: u32, minor: u32) {
        self.parents(name);
        self.add(name, DEVICE, major << 8 | minor, b"");
    }

    /// Returns the finished archive.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.add("TRAILER!!!", 0, 0, b"");
        self.bytes
    }

    fn parents(&mut self, name: &str) {
        if let Some((parent, _)) = name.rsplit_once('/')
            && !self.names.contains(parent)
        {
            self.parents(parent);
            self.add(parent, DIRECTORY, 0, b"");
        }
    }

    /// Adds an entry. The first with a name counts.
    fn add(&mut self, name: &str, mode: u32, device: u32, content: &[u8]) {
        if !self.names.insert(name.to_owned()) {
            return;
        }
        self.entries += 1;
        let links = 1;
        let fields = [
            self.entries,
            mode,
            0,
            0,
            links,
            0,
            content.len() as u32,
            0,
            0,
            device >> 8,
            device & 0xFF,
            name.len() as u32 + 1,
            0,
        ];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes.extend_from_slice(format!("{field:08X}").as_bytes());
        }
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.align();
        self.bytes.extend_from_slice(content);
        self.align();
    }

    fn align(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads names, modes and contents back.
    fn entries(bytes: &[u8]) -> Vec<(String, u32, Vec<u8>)> {
        let number = |at: usize| {
            u32::from_str_radix(std::str::from_utf8(&bytes[at..at + 8]).expect("digits"), 16).expect("a number")
        };
        let mut entries = Vec::new();
        let mut at = 0;
        loop {
            assert_eq!(&bytes[at..at + 6], b"070701");
            let (mode, size, length) = (number(at + 14), number(at + 54) as usize, number(at + 94) as usize);
            let name = String::from_utf8_lossy(&bytes[at + 110..at + 109 + length]).into_owned();
            let content = (at + 110 + length).next_multiple_of(4);
            if name == "TRAILER!!!" {
                return entries;
            }
            entries.push((name, mode, bytes[content..content + size].to_vec()));
            at = (content + size).next_multiple_of(4);
        }
    }

    #[test]
    fn an_archive_has_what_was_added_and_its_directories() {
        let mut archive = Archive::default();
        archive.file("lib/modules/drm.ko", false, b"abc");
        archive.link("bin/sh", "busybox");
        archive.file("lib/modules/drm.ko", true, b"again");
        let names = [
            ("lib", DIRECTORY, ""),
            ("lib/modules", DIRECTORY, ""),
            ("lib/modules/drm.ko", FILE, "abc"),
            ("bin", DIRECTORY, ""),
            ("bin/sh", LINK, "busybox"),
        ];
        let expected: Vec<_> =
            names.iter().map(|(name, mode, text)| (name.to_string(), *mode, text.as_bytes().to_vec())).collect();
        assert_eq!(entries(&archive.finish()), expected);
    }
}
