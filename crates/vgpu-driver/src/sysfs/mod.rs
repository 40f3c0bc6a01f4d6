//! The files by which programs find a gpu: device nodes and sysfs, as one tree in memory.
//!
//! The tree is computed from a [`Profile`] once. Paths are absolute and normalised. Directories that the machine has
//! too (`/dev`, `/sys/class`) hold only what is added to them; [`Tree::owns`] tells them from those that exist only
//! here.

mod device;
mod topology;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::profile::Profile;
use crate::{Behaviours, KernelProfile};
pub(crate) use topology::{AMD_VENDOR_ID, capability, debug_properties};

/// Major number of DRM devices.
pub const DRM_MAJOR: u32 = 226;
/// Major number of `/dev/kfd`. The kernel gives it out when the driver is loaded; this is a usual one.
pub const KFD_MAJOR: u32 = 511;

/// Directory of `/dev/kfd` in sysfs; `/sys/class/kfd/kfd` is a link to it.
pub(crate) const KFD_DEVICE_DIR: &str = "/sys/devices/virtual/kfd/kfd";

/// Links are followed this often in one path, then it does not exist.
const MAX_LINKS: u32 = 16;

/// A device node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DeviceKind {
    /// `/dev/kfd`.
    Kfd,
    /// A render node, with its minor number.
    Render(u32),
}

impl DeviceKind {
    /// Major and minor number.
    #[must_use]
    pub const fn number(self) -> (u32, u32) {
        match self {
            DeviceKind::Kfd => (KFD_MAJOR, 0),
            DeviceKind::Render(minor) => (DRM_MAJOR, minor),
        }
    }
}

/// What kind of thing a directory entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EntryKind {
    /// A directory.
    Dir,
    /// A file.
    File,
    /// A character device.
    Device,
    /// A symbolic link.
    Link,
}

/// An entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirEntry {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: EntryKind,
}

/// What is found at a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Node {
    /// A directory, entries by name.
    Dir(Vec<DirEntry>),
    /// A file with this text.
    File(String),
    /// A character device.
    Device(DeviceKind),
    /// A symbolic link with this text, relative to the directory it is in.
    Link(String),
}

/// What the host brings to the processor's topology node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Host {
    /// Processor cores.
    pub cores: u32,
    /// Bytes of memory.
    pub memory_bytes: u64,
}

impl Default for Host {
    fn default() -> Host {
        Host { cores: 2, memory_bytes: 8 << 30 }
    }
}

#[derive(Clone, Debug)]
enum Item {
    Dir,
    File(String),
    Device(DeviceKind),
    /// Absolute path of what it points to.
    Link(String),
}

impl Item {
    const fn kind(&self) -> EntryKind {
        match self {
            Item::Dir => EntryKind::Dir,
            Item::File(_) => EntryKind::File,
            Item::Device(_) => EntryKind::Device,
            Item::Link(_) => EntryKind::Link,
        }
    }
}

/// All files of a profile.
#[derive(Clone, Debug)]
pub struct Tree {
    /// By absolute path. Every parent of an item is in it.
    items: BTreeMap<String, Item>,
    /// Paths below which nothing of the machine is shown.
    roots: Vec<String>,
}

impl Tree {
    /// The files of a profile on a small host.
    #[must_use]
    pub fn new(profile: &Profile) -> Tree {
        Tree::of(profile, Host::default(), &KernelProfile::default().behaviours())
    }

    /// The files of a profile on this host, as a kernel shows them.
    #[must_use]
    pub fn of(profile: &Profile, host: Host, kernel: &Behaviours) -> Tree {
        let mut tree = Tree { items: BTreeMap::from([("/".to_owned(), Item::Dir)]), roots: Vec::new() };
        topology::build(&mut tree, profile, host, kernel);
        device::build(&mut tree, profile);
        tree
    }

    /// What is at `path`. Links on the way are followed; the last one is answered as a link.
    #[must_use]
    pub fn lookup(&self, path: &str) -> Option<Node> {
        let path = self.follow(path, false)?;
        Some(match self.items.get(&path)? {
            Item::Dir => Node::Dir(self.entries(&path)),
            Item::File(text) => Node::File(text.clone()),
            Item::Device(kind) => Node::Device(*kind),
            Item::Link(target) => Node::Link(relative(&path, target)),
        })
    }

    /// The path at which `path` ends after all links, the last one included.
    #[must_use]
    pub fn resolve(&self, path: &str) -> Option<String> {
        self.follow(path, true)
    }

    /// Whether `path` lies in a part of the file system that exists only here: the machine has nothing to add to it.
    #[must_use]
    pub fn owns(&self, path: &str) -> bool {
        self.roots
            .iter()
            .any(|root| path.strip_prefix(root.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
    }

    fn follow(&self, path: &str, last: bool) -> Option<String> {
        let mut path = path.to_owned();
        for _ in 0..MAX_LINKS {
            match self.first_link(&path, last) {
                None => return self.items.contains_key(&path).then_some(path),
                Some((length, target)) => path = format!("{target}{}", &path[length..]),
            }
        }
        None
    }

    /// The first link on the way: the length of its path, and where it points.
    fn first_link(&self, path: &str, last: bool) -> Option<(usize, &str)> {
        let ends = path.match_indices('/').map(|(at, _)| at).skip(1).chain(last.then_some(path.len()));
        ends.filter_map(|end| match self.items.get(&path[..end])? {
            Item::Link(target) => Some((end, target.as_str())),
            _ => None,
        })
        .next()
    }

    fn entries(&self, dir: &str) -> Vec<DirEntry> {
        let prefix = if dir == "/" { "/".to_owned() } else { format!("{dir}/") };
        self.items
            .range(prefix.clone()..)
            .take_while(|(path, _)| path.starts_with(&prefix))
            .filter(|(path, _)| path.len() > prefix.len() && !path[prefix.len()..].contains('/'))
            .map(|(path, item)| DirEntry { name: path[prefix.len()..].to_owned(), kind: item.kind() })
            .collect()
    }

    fn insert(&mut self, path: &str, item: Item) {
        for (end, _) in path.match_indices('/').skip(1) {
            self.items.entry(path[..end].to_owned()).or_insert(Item::Dir);
        }
        self.items.insert(path.to_owned(), item);
    }

    fn dir(&mut self, path: &str) {
        self.insert(path, Item::Dir);
    }

    /// A file with one line.
    fn line(&mut self, path: &str, value: impl std::fmt::Display) {
        self.insert(path, Item::File(format!("{value}\n")));
    }

    fn text(&mut self, path: &str, text: String) {
        self.insert(path, Item::File(text));
    }

    fn device(&mut self, path: &str, kind: DeviceKind) {
        self.insert(path, Item::Device(kind));
    }

    fn link(&mut self, path: &str, target: &str) {
        self.insert(path, Item::Link(target.to_owned()));
    }

    fn own(&mut self, root: &str) {
        self.roots.push(root.to_owned());
    }
}

/// The text of a link at `from` to the absolute `target`. The target's own name is always written, as sysfs does it, so
/// that programs find a subsystem's name at its end.
fn relative(from: &str, target: &str) -> String {
    let (dir, _) = from.rsplit_once('/').unwrap_or(("", from));
    let (parent, name) = target.rsplit_once('/').unwrap_or(("", target));
    let (dir, parent) = (components(dir), components(parent));
    let common = dir.iter().zip(&parent).take_while(|(a, b)| a == b).count();
    let up = std::iter::repeat_n("..", dir.len() - common);
    up.chain(parent[common..].iter().copied()).chain([name]).collect::<Vec<_>>().join("/")
}

fn components(path: &str) -> Vec<&str> {
    path.split('/').filter(|component| !component.is_empty()).collect()
}

#[cfg(test)]
mod tests;
