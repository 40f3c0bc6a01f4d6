//! A process that makes the memory which the scheduler reads as difficult as it can.

use std::io::{Write, stdin, stdout};
use std::ptr;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use kfd_runtime::{Device, Order, Queue, Runtime};

use crate::cases::Random;

const PAGE: u64 = 4096;
const UFFD_API: u64 = 0xc018_aa3f;
const UFFDIO_REGISTER: u64 = 0xc020_aa00;

/// Addresses of a queue of this process: ring, read index, write index.
fn addresses() -> Result<[u64; 3]> {
    let own = std::process::id();
    let processes = kfd::debugfs::read_queues().context("cannot read the driver's list of queues")?;
    let queue = processes.iter().find(|process| process.pid == own).and_then(|process| process.queues.first());
    let queue = queue.context("this process has no queue")?;
    let all = [queue.ring(), queue.rptr_address(), queue.wptr_address()];
    let [Some(ring), Some(read), Some(write)] = all else { bail!("the list of queues lacks addresses") };
    Ok([ring, read, write])
}

fn checked(what: &str, result: i64) -> Result<i64> {
    ensure!(result >= 0, "{what}: {}", std::io::Error::last_os_error());
    Ok(result)
}

/// Puts anonymous memory in the place of a page.
fn replace(page: u64) -> Result<()> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
    let place = ptr::with_exposed_provenance_mut(page as usize);
    // SAFETY: the page holds indices of a queue that this process uses no more.
    let place = unsafe { libc::mmap(place, PAGE as usize, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
    ensure!(place != libc::MAP_FAILED, "mmap: {}", std::io::Error::last_os_error());
    Ok(())
}

/// Registers a page with a userfaultfd that nobody reads.
fn leave_unresolved(page: u64) -> Result<()> {
    replace(page)?;
    // SAFETY: makes a descriptor.
    let fd = checked("userfaultfd", unsafe { libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC) })?;
    let mut api = [0xaa_u64, 0, 0];
    let mut register = [page, PAGE, 1, 0];
    // SAFETY: structures of the size that the numbers say.
    unsafe {
        checked("UFFDIO_API", libc::ioctl(fd as i32, UFFD_API, api.as_mut_ptr()).into())?;
        checked("UFFDIO_REGISTER", libc::ioctl(fd as i32, UFFDIO_REGISTER, register.as_mut_ptr()).into())?;
    }
    Ok(())
}

/// Writes what cannot be to the ring and its indices, for as long as the process lives.
fn rewrite([ring, read, write]: [u64; 3]) -> ! {
    let mut random = Random(7);
    let put = |address: u64, value: u64| {
        let place: *mut u64 = ptr::with_exposed_provenance_mut(address as usize);
        // SAFETY: the memory of a queue that this process uses no more; the scheduler reads it meanwhile.
        unsafe { place.write_volatile(value) };
    };
    loop {
        for _ in 0..64 {
            put(ring + random.below(8192) * 8, random.below(u64::MAX));
        }
        let absurd = [0, 1, random.below(2000), u64::MAX, u64::MAX - 1, 1 << 63, random.below(u64::MAX)];
        put(write, absurd[random.below(7) as usize]);
        put(read, absurd[random.below(7) as usize]);
        thread::sleep(Duration::from_micros(random.below(300)));
    }
}

fn busy(queue: &mut Queue) -> Result<()> {
    for _ in 0..50 {
        queue.dispatch_timed(Duration::from_millis(2), 1, Order::AfterPrevious, None)?;
    }
    Ok(())
}

fn begin(way: &str, device: &Device, queues: &mut Vec<Queue>) -> Result<()> {
    let first = queues.first_mut().context("there is no queue")?;
    let all = addresses()?;
    let [_, read, _] = all;
    let page = read & !(PAGE - 1);
    let place = ptr::with_exposed_provenance_mut(page as usize);
    busy(first)?;
    match way {
        "rewritten" => drop(thread::spawn(move || rewrite(all))),
        // SAFETY: the page holds indices of a queue that this process uses no more.
        "unmapped" => drop(checked("munmap", unsafe { libc::munmap(place, PAGE as usize) }.into())?),
        "protected" => {
            // SAFETY: as above.
            checked("mprotect", unsafe { libc::mprotect(place, PAGE as usize, libc::PROT_NONE) }.into())?;
        }
        "unresolved" => leave_unresolved(page)?,
        "absent" => replace(page)?,
        "many" => {
            while queues.len() < 255 {
                queues.push(Queue::new(device).with_context(|| format!("after {} queues", queues.len()))?);
            }
        }
        _ => bail!("unknown way `{way}`"),
    }
    Ok(())
}

/// Is the process: says that it is ready, begins when it is told to, and goes on until it is killed.
pub(crate) fn be(way: &str) -> Result<()> {
    let runtime = Runtime::open()?;
    let device = runtime.device(0)?;
    let mut queues = Vec::new();
    println!("ready");
    stdout().flush()?;
    for line in stdin().lines() {
        match line?.as_str() {
            "open" => queues.push(Queue::new(device)?),
            "begin" => begin(way, device, &mut queues)?,
            other => bail!("unknown command `{other}`"),
        }
        println!("done");
        stdout().flush()?;
    }
    // Its memory is not what the runtime believes it to be.
    std::process::exit(0)
}
