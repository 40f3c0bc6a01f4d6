//! Named points at which a process can be made to die, so that tests can show that a death anywhere leaves nothing
//! behind.
//!
//! A page of shared memory names the victim of each point. The gpu's [`Options`](crate::options::Options) contain its
//! path; without a page, passing a point costs one load. Code in the client process and its executors calls [`hit`],
//! code that serves a client elsewhere calls [`hit_of`].

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal};

use crate::sys::{self, Map};

macro_rules! points {
    ($($(#[$doc:meta])* $point:ident = $name:literal,)*) => {
        /// A point at which a process can be made to die.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Point {
            $($(#[$doc])* $point,)*
        }

        impl Point {
            /// All points.
            pub const ALL: &[Point] = &[$(Point::$point,)*];

            /// Returns its name in reports.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Point::$point => $name,)*
                }
            }
        }
    };
}

points! {
    /// An executor is half way through saving a queue's waves.
    Save = "save",
    /// An executor is half way through restoring a queue's waves.
    Restore = "restore",
    /// The driver has a call of the client and has not carried it out.
    IoctlSent = "ioctl_sent",
    /// The driver has carried a call out and the client has not done its part.
    IoctlReplied = "ioctl_replied",
    /// An executor holds the lock of the compute units.
    SlotLock = "slot_lock",
    /// An executor holds an execution token.
    Token = "token",
    /// An executor has read a command of the driver and not acknowledged it.
    MailboxRead = "mailbox_read",
    /// An executor holds the lock of its gpu.
    DeviceLock = "device_lock",
    /// The client has opened the gpu and has no executor yet.
    Attach = "attach",
    /// The driver has made a queue and the device has not.
    QueueCreate = "queue_create",
    /// The driver has taken a queue apart and the device has not.
    QueueDestroy = "queue_destroy",
    /// The client has kernels on the device.
    Running = "running",
    /// A debugger has attached and stopped nothing yet.
    TracerAttach = "tracer_attach",
    /// A debugger holds queues stopped.
    TracerSuspend = "tracer_suspend",
    /// A debugger has let queues go on and is still attached.
    TracerResume = "tracer_resume",
}

#[repr(C, align(64))]
struct Slot {
    /// Pid of the victim in the upper half (0: none), passes until its death in the lower.
    armed: AtomicU64,
    passed: AtomicU64,
    hits: AtomicU64,
}

const SIZE: usize = 4096;
const _: () = assert!(Point::ALL.len() * size_of::<Slot>() <= SIZE);

/// The pid that stands for any process.
const ANY_PROCESS: u32 = u32::MAX;

static SLOTS: AtomicPtr<Slot> = AtomicPtr::new(std::ptr::null_mut());
/// The client to which this address space belongs; 0 before it is known. Executors share it.
static CLIENT: AtomicU32 = AtomicU32::new(0);

/// Uses the page of this path from now on. Until then points do nothing.
pub fn use_page(path: &str) {
    if !SLOTS.load(Ordering::Relaxed).is_null() {
        return;
    }
    if let Some(map) = open(path) {
        let slots = map.start().cast();
        if SLOTS.compare_exchange(std::ptr::null_mut(), slots, Ordering::Release, Ordering::Relaxed).is_ok() {
            // It stays as long as the process.
            std::mem::forget(map);
        }
    }
}

/// Names the process that dies at a [`hit`] in this address space; 0 is the calling process, as in the child of a fork.
pub fn set_client(pid: u32) {
    CLIENT.store(pid, Ordering::Relaxed);
}

fn open(path: &str) -> Option<Map> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = rustix::fs::open(path, flags, Mode::empty()).ok()?;
    let size = sys::file_size(file.as_fd()).ok()?;
    // Children of a fork keep the page: they die as well as others.
    (size == SIZE as u64).then(|| Map::new(file.as_fd(), 0, SIZE).ok()).flatten().inspect(Map::inherit)
}

/// Passes a point in a thread or executor of the client. Does not return if the client is to die here.
#[inline]
pub fn hit(point: Point) {
    let slots = SLOTS.load(Ordering::Relaxed);
    if !slots.is_null() {
        pass(slots, point);
    }
}

#[cold]
fn pass(slots: *mut Slot, point: Point) {
    let client = match CLIENT.load(Ordering::Relaxed) {
        0 => std::process::id(),
        client => client,
    };
    if !slot(slots, point).pass(client) {
        return;
    }
    kill(client);
    loop {
        // An executor stays where it is, with what it holds, until it is killed.
        // SAFETY: waits for a signal.
        unsafe { libc::pause() };
    }
}

/// Passes a point in the service of process `client`; kills the client if it is to die here, and returns.
#[inline]
pub fn hit_of(point: Point, client: u32) {
    let slots = SLOTS.load(Ordering::Relaxed);
    if !slots.is_null() && slot(slots, point).pass(client) {
        kill(client);
    }
}

fn slot<'a>(slots: *mut Slot, point: Point) -> &'a Slot {
    // SAFETY: the page holds as many slots as there are points, nothing but atomics, and is never unmapped.
    unsafe { &*slots.add(point as usize) }
}

fn kill(client: u32) {
    if let Some(pid) = i32::try_from(client).ok().filter(|&pid| pid > 1).and_then(Pid::from_raw) {
        // Another kill point may have been faster: then there is no such process.
        let _ = rustix::process::kill_process(pid, Signal::KILL);
    }
}

impl Slot {
    /// Counts a pass. Returns whether the client dies at this one.
    fn pass(&self, client: u32) -> bool {
        self.passed.fetch_add(1, Ordering::Relaxed);
        let due = self.armed.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |armed| {
            let (victim, left) = ((armed >> 32) as u32, armed as u32);
            let meant = victim == client || victim == ANY_PROCESS;
            meant.then(|| if left > 1 { armed - 1 } else { 0 })
        });
        let dies = due.is_ok_and(|before| before as u32 <= 1);
        if dies {
            self.hits.fetch_add(1, Ordering::Relaxed);
        }
        dies
    }
}

/// Counts of a point so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Passes.
    pub passed: u64,
    /// Deaths.
    pub hits: u64,
}

/// Returns the counts of the page that this process uses; empty without one.
#[must_use]
pub fn counts() -> Vec<(Point, Counts)> {
    let slots = SLOTS.load(Ordering::Acquire);
    if slots.is_null() {
        return Vec::new();
    }
    Point::ALL.iter().map(|&point| (point, slot(slots, point).counts())).collect()
}

impl Slot {
    fn counts(&self) -> Counts {
        Counts { passed: self.passed.load(Ordering::Relaxed), hits: self.hits.load(Ordering::Relaxed) }
    }
}

/// A page of points, owned by the process that arms them.
#[derive(Debug)]
pub struct Page {
    map: Map,
    file: OwnedFd,
}

impl Page {
    /// Creates a page with no point armed.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn new() -> io::Result<Self> {
        let file = sys::memfd("gpreempt-vgpu-points", SIZE as u64)?;
        Ok(Self { map: Map::new(file.as_fd(), 0, SIZE)?, file })
    }

    /// Returns the path for [`use_page`]. It is valid while this process lives.
    #[must_use]
    pub fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd())
    }

    fn slot(&self, point: Point) -> &Slot {
        slot(self.map.start().cast(), point)
    }

    /// Kills the victim, or any process if `None`, at the `passes`-th pass of the point from now. Replaces an earlier
    /// order.
    pub fn arm(&self, point: Point, victim: Option<u32>, passes: u32) {
        let word = u64::from(victim.unwrap_or(ANY_PROCESS)) << 32 | u64::from(passes.max(1));
        self.slot(point).armed.store(word, Ordering::Relaxed);
    }

    /// Cancels the order for a point.
    pub fn disarm(&self, point: Point) {
        self.slot(point).armed.store(0, Ordering::Relaxed);
    }

    /// Returns whether an order for the point is pending.
    #[must_use]
    pub fn is_armed(&self, point: Point) -> bool {
        self.slot(point).armed.load(Ordering::Relaxed) != 0
    }

    /// Counts of a point so far.
    #[must_use]
    pub fn counts(&self, point: Point) -> Counts {
        self.slot(point).counts()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_victim_dies_and_only_at_its_time() {
        let page = Page::new().expect("a page");
        page.arm(Point::Token, Some(70), 3);
        let passes = |client| page.slot(Point::Token).pass(client);
        assert_eq!([70, 71, 70, 71, 70, 70].map(passes), [false, false, false, false, true, false]);
        assert_eq!(page.counts(Point::Token), Counts { passed: 6, hits: 1 });
        assert!(!page.is_armed(Point::Token));
        page.arm(Point::Token, None, 1);
        assert!(!page.slot(Point::Save).pass(5), "another point");
        assert!(page.slot(Point::Token).pass(5), "any process that passes");
        page.arm(Point::Token, None, 1);
        page.disarm(Point::Token);
        assert!(!page.slot(Point::Token).pass(5));
    }

    #[test]
    fn a_page_is_found_by_its_path_and_nothing_else_is_taken_for_one() {
        let page = Page::new().expect("a page");
        page.arm(Point::Save, Some(9), 1);
        let map = open(&page.path()).expect("the same page");
        assert!(slot(map.start().cast(), Point::Save).pass(9));
        assert_eq!(page.counts(Point::Save).hits, 1);
        assert!(open("/dev/null").is_none());
        assert!(open("/no/such/file").is_none());
    }

    #[test]
    fn points_have_names_of_their_own() {
        let mut names: Vec<&str> = Point::ALL.iter().map(|point| point.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Point::ALL.len());
    }
}
