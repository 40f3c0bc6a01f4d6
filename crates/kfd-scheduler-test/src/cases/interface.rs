//! Arguments, lists and events.

use std::io::Read;
use std::mem::offset_of;

use anyhow::{Context, Result, ensure};
use gpreempt_kernel_abi::{
    ABI_VERSION, Abi, Argument, Claim, Features, GpuArgs, GpuFlags, JobArgs, ModuleEventKind, ModuleMode,
    ModuleSettings, ModuleVersion, ModuleWatch, QueryArgs, QueryKind, RawPolicy, RemoveJobArgs, Request, TenantRecord,
};

use super::until;
use crate::Options;
use crate::control::{Control, POLLING, at_level, start_time};
use crate::tenant::Tenant;

pub(super) fn arguments_are_checked(_: &Options) -> Result<()> {
    let control = Control::host(POLLING)?;
    let version = control.version()?;
    let both = Features::DOORBELLS | Features::CGROUPS;
    ensure!(version.abi == ABI_VERSION && version.features == both && version.max_jobs > 0, "{version:?}");
    let gpu_id = control.gpu()?.gpu_id;

    for settings in [
        ModuleSettings { mode: ModuleMode(2), ..POLLING },
        ModuleSettings { watch: ModuleWatch(2), ..POLLING },
        ModuleSettings { period_us: 49, ..POLLING },
        ModuleSettings { period_us: 1_000_001, ..POLLING },
        ModuleSettings { net_ms: 9, ..POLLING },
        ModuleSettings { net_ms: 60_001, ..POLLING },
        ModuleSettings { size: 20, ..POLLING },
    ] {
        ensure!(control.call(&mut { settings }) == Err(libc::EINVAL), "{settings:?}");
    }
    let gpu = GpuArgs { gpu_id, managed: 1, ..GpuArgs::SIZED };
    let wrong_policy = gpreempt_kernel_abi::RawGpuParams { policy: RawPolicy(3), ..gpu.params };
    for (args, error) in [
        (GpuArgs { gpu_id: gpu_id ^ 1, ..gpu }, libc::ENODEV),
        (GpuArgs { managed: 2, ..gpu }, libc::EINVAL),
        (GpuArgs { reserved: 1, ..gpu }, libc::EINVAL),
        (GpuArgs { params: wrong_policy, ..gpu }, libc::EINVAL),
    ] {
        ensure!(control.call(&mut { args }) == Err(error), "{args:?}");
    }
    let job = JobArgs { job: 5, params: at_level(3), ..JobArgs::SIZED };
    for args in [
        JobArgs { job: 0, ..job },
        JobArgs { reserved: 1, ..job },
        JobArgs { params: gpreempt_kernel_abi::RawJobParams { level: 16, ..job.params }, ..job },
        JobArgs { params: gpreempt_kernel_abi::RawJobParams { reserved: [0, 1, 0], ..job.params }, ..job },
        JobArgs { size: 8, ..job },
        JobArgs { size: 0, ..job },
    ] {
        ensure!(control.call(&mut { args }) == Err(libc::EINVAL), "{args:?}");
    }
    ensure!(control.jobs()?.is_empty(), "a refused job is there");
    ensure!(control.remove_job(0) == Err(libc::EINVAL) && control.remove_job(9) == Err(libc::ENOENT), "no such job");
    longer_structures(&control)?;
    addresses(&control)?;
    for nr in [0x0a_u8, 0x40, 0xff] {
        let Request(request) = Request::new(kfd_abi::ioctl::Direction::Write, 0xB9, nr, 8);
        ensure!(control.raw(request, 0) == Err(libc::ENOTTY), "number {nr:#x}");
    }
    let Request(other) = Request::new(kfd_abi::ioctl::Direction::Write, b'K', 1, 8);
    ensure!(control.raw(other, 0) == Err(libc::ENOTTY), "another class");
    ensure!(control.call(&mut Claim { keep_ms: 1, ..Claim::SIZED }) == Ok(()), "the host claims again");
    Ok(())
}

/// A caller that knows a longer structure is understood as long as the rest is zero.
fn longer_structures(control: &Control) -> Result<()> {
    let mut bytes = [0_u8; 4096];
    let job = JobArgs { size: 104, job: 5, params: at_level(3), ..JobArgs::SIZED };
    job.encode(&mut bytes).context("no room")?;
    let Request(request) = JobArgs::COMMAND.request();
    let address = bytes.as_mut_ptr().expose_provenance();
    ensure!(control.raw(request, address) == Ok(()), "a longer structure");
    *bytes.get_mut(100).context("short")? = 1;
    ensure!(control.raw(request, address) == Err(libc::E2BIG), "bytes that are not known");
    JobArgs { size: 5000, ..job }.encode(&mut bytes).context("no room")?;
    ensure!(control.raw(request, address) == Err(libc::E2BIG), "more than a page");
    ensure!(control.remove_job(5) == Ok(()), "it was not added");
    // A caller that knows shorter records, or longer ones.
    let gpus = control.gpus()?.len();
    for size in [8_u32, 4096] {
        let mut records = vec![0xff_u8; size as usize * gpus];
        let mut args = QueryArgs {
            kind: QueryKind::GPUS,
            records: records.as_mut_ptr().expose_provenance() as u64,
            record_size: size,
            room: gpus as u32,
            ..QueryArgs::SIZED
        };
        control.must(&mut args)?;
        ensure!(args.count as usize == gpus && records.last() != Some(&0xff), "records of {size} bytes");
    }
    Ok(())
}

fn addresses(control: &Control) -> Result<()> {
    for request in gpreempt_kernel_abi::COMMANDS {
        let Request(number) = request.request();
        if *request != gpreempt_kernel_abi::CLEAR {
            for address in [0, 8, usize::MAX - 7, 1 << 47] {
                ensure!(control.raw(number, address) == Err(libc::EFAULT), "{} at {address:#x}", request.name);
            }
        }
    }
    let query = QueryArgs { kind: QueryKind::GPUS, records: 8, record_size: 8, room: 1, ..QueryArgs::SIZED };
    for (args, error) in [
        (query, libc::EFAULT),
        (QueryArgs { kind: QueryKind(3), ..query }, libc::EINVAL),
        (QueryArgs { record_size: 0, ..query }, libc::EINVAL),
        (QueryArgs { record_size: 8192, ..query }, libc::EINVAL),
        (QueryArgs { reserved: 1, ..query }, libc::EINVAL),
    ] {
        ensure!(control.call(&mut { args }) == Err(error), "{args:?}");
    }
    ensure!(control.call(&mut QueryArgs { room: 0, ..query }) == Ok(()), "only the count");
    ensure!(control.call(&mut RemoveJobArgs { reserved: 1, job: 1, ..RemoveJobArgs::SIZED }).is_err(), "reserved");
    ensure!(control.call(&mut ModuleVersion { size: 4, ..ModuleVersion::SIZED }) == Err(libc::EINVAL), "short");
    Ok(())
}

pub(super) fn queries_and_events_tell_what_happened(_: &Options) -> Result<()> {
    let control = Control::host(POLLING)?;
    control.events()?;
    let (mut online, mut offline) = (Tenant::start()?, Tenant::start()?);
    for (tenant, job, level) in [(&online, 21, 9), (&offline, 22, 2)] {
        control.job(job, level)?;
        control.process(tenant.pid(), job)?;
    }
    offline.send(100, 5000)?;
    offline.must_progress()?;
    online.send(100, 5000)?;
    let stopped = |tenant: &TenantRecord| tenant.stopped_queues == 1;
    until("one is stopped", || Ok(control.tenants()?.iter().any(stopped)))?;
    let tenants = control.tenants()?;
    ensure!(tenants.len() == 2, "{tenants:?}");
    let low = control.tenant(offline.pid())?.context("it is no tenant")?;
    ensure!(low.start_time == start_time(offline.pid())? && low.job == 22 && low.preempted >= 1, "{low:?}");
    let jobs = control.jobs()?;
    let job = jobs.iter().find(|job| job.job == 22).context("there is no such job")?;
    ensure!(job.phase == 1 && job.cause == 21 && job.tenants == 1 && jobs.len() == 2, "{jobs:?}");
    let gpu = control.gpu()?;
    ensure!(gpu.flags.has(GpuFlags::MANAGED | GpuFlags::CONTESTED) && gpu.holder == 21, "{gpu:?}");
    ensure!(gpu.preempt.count == gpu.preempts && gpu.preempt.buckets.iter().sum::<u64>() == gpu.preempts, "{gpu:?}");
    let pid = offline.pid().cast_signed();
    online.must_finish()?;
    offline.must_finish()?;
    drop(offline);
    until("it is no tenant", || Ok(control.tenants()?.len() == 1))?;
    let events = control.events()?;
    let of = |kind| events.iter().filter(move |event| event.pid == pid && event.kind == kind);
    for kind in [ModuleEventKind::TENANT_NEW, ModuleEventKind::TENANT_GONE] {
        ensure!(of(kind).count() == 1, "{kind:?}: {events:?}");
    }
    let stop = of(ModuleEventKind::PREEMPTED).next().context("no stop was told")?;
    ensure!(stop.job == 22 && stop.cause == 21 && stop.queues == 1 && stop.cycles == 1 && stop.seen_ns > 0, "{stop:?}");
    let resume = of(ModuleEventKind::RESUMED).next().context("no resume was told")?;
    ensure!(resume.after_ns > 0 && resume.at_ns > stop.at_ns && resume.took_ns > 0, "{resume:?}");
    ensure!(of(ModuleEventKind::ACTIVITY).count() >= 2, "no activity was told");
    let mut last = None;
    for event in &events {
        ensure!(event.lost == 0 && last.is_none_or(|last| event.sequence == last + 1), "{event:?} after {last:?}");
        last = Some(event.sequence);
    }
    Ok(())
}

/// For a module that keeps 64 events.
pub(super) fn slow_readers_lose_the_oldest(_: &Options) -> Result<()> {
    let control = Control::host(POLLING)?;
    let (slow, fast) = (Control::open()?, Control::open()?);
    // A tenant that comes and goes is two events.
    let mut tenant = Tenant::start()?;
    let mut read = Vec::new();
    for _ in 0..50 {
        tenant.close()?;
        tenant.open()?;
        read.extend(fast.events()?);
    }
    // The last one may still be on its way.
    until("the tenant is back", || Ok(control.tenant(tenant.pid())?.is_some()))?;
    read.extend(fast.events()?);
    let consecutive = read.windows(2).all(|pair| matches!(pair, [one, two] if two.sequence == one.sequence + 1));
    ensure!(read.len() > 64 && consecutive && read.iter().all(|event| event.lost == 0), "a fast reader lost some");
    let kept = slow.events()?;
    let (first, last) = (kept.first().context("no event")?, read.last().context("no event")?);
    ensure!(kept.len() == 64 && kept.last() == Some(last), "{} events were kept", kept.len());
    ensure!(first.lost as usize == read.len() - kept.len(), "{} events are told as lost", first.lost);
    ensure!(kept.iter().skip(1).all(|event| event.lost == 0), "events were lost while they were read");
    let size = size_of_val(last);
    ensure!(offset_of!(gpreempt_kernel_abi::ModuleEvent, lost) == 16 && size == 104, "an event has {size} bytes");
    let mut short = vec![0; size - 1];
    ensure!((&control.0).read(&mut short).is_err(), "a part of an event was read");
    Ok(())
}
