//! The control device: each call as a method.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;

use anyhow::{Context, Result, ensure};
use gpreempt_core::{GpuParams, JobParams, Level, Nanos, Patience};
use gpreempt_kernel_abi::{
    Abi, Argument, CLEAR, CgroupArgs, Claim, DEVICE, GRACE_DEFAULT, GpuArgs, GpuRecord, JobArgs, JobRecord,
    ModuleEvent, ModuleMode, ModuleSettings, ModuleVersion, ModuleWatch, ProcessArgs, ProcessFlags, QueryArgs,
    QueryKind, RawJobParams, RemoveJobArgs, Request, TenantRecord,
};
use linux_host::clock;
use linux_host::process::ProcStat;

/// A call's error, as a number.
pub(crate) type Answer<T> = Result<T, i32>;

/// An open control device.
pub(crate) struct Control(pub(crate) File);

/// Settings that tests begin with: everything is enforced, and looked at every millisecond.
pub(crate) const POLLING: ModuleSettings = ModuleSettings {
    mode: ModuleMode::ENFORCE,
    watch: ModuleWatch::POLL,
    period_us: 1000,
    net_ms: 1000,
    grace: GRACE_DEFAULT,
    ..ModuleSettings::SIZED
};

/// The same, with doorbells.
pub(crate) const DOORBELLS: ModuleSettings = ModuleSettings { watch: ModuleWatch::DOORBELL, ..POLLING };

/// Settings of a job of a level that gets what it wants at once.
pub(crate) fn at_level(level: u8) -> RawJobParams {
    let level = Level::new(level).unwrap_or_default();
    let params = JobParams {
        level,
        patience: Patience::Fixed(Nanos::ZERO),
        min_run: Nanos::ZERO,
        max_stop: Nanos::from_secs(600),
        age_step: Nanos::ZERO,
        ..JobParams::default()
    };
    params.into()
}

/// Returns when a process started, in clock ticks after boot.
pub(crate) fn start_time(pid: u32) -> Result<u64> {
    Ok(ProcStat::read(pid).with_context(|| format!("there is no process {pid}"))?.start)
}

/// Returns the number of an error.
pub(crate) fn number(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(0)
}

impl Control {
    /// Opens the device. Reads do not wait.
    pub(crate) fn open() -> Result<Control> {
        let file = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(DEVICE);
        Ok(Control(file.with_context(|| format!("cannot open {DEVICE}"))?))
    }

    /// Opens the device and becomes a policy host that begins anew.
    pub(crate) fn host(settings: ModuleSettings) -> Result<Control> {
        let control = Control::open()?;
        control.must(&mut Claim { keep_ms: 60_000, ..Claim::SIZED })?;
        control.clear()?;
        control.must(&mut { settings })?;
        for gpu in control.gpus()? {
            control.manage(gpu.gpu_id)?;
        }
        Ok(control)
    }

    /// Makes a call whose argument has no addresses, or valid ones.
    pub(crate) fn call<A: Argument>(&self, args: &mut A) -> Answer<()> {
        // SAFETY: of the arguments only that of QUERY has an address, and `query` makes a valid one.
        unsafe { kfd::device::call_once(&self.0, args) }.map(drop).map_err(|error| number(&error))
    }

    /// Makes a call that has to succeed.
    pub(crate) fn must<A: Argument>(&self, args: &mut A) -> Result<()> {
        let what = A::COMMAND.name;
        self.call(args).map_err(io::Error::from_raw_os_error).with_context(|| format!("{what} failed"))
    }

    /// Makes a call by its number, with an argument at an address or none.
    pub(crate) fn raw(&self, request: u32, argument: usize) -> Answer<()> {
        // SAFETY: the module has to survive any number and any address; it writes to no memory that a test uses.
        let result = unsafe { libc::ioctl(self.0.as_raw_fd(), request.into(), argument) };
        if result < 0 { Err(number(&io::Error::last_os_error())) } else { Ok(()) }
    }

    pub(crate) fn clear(&self) -> Result<()> {
        let Request(request) = CLEAR.request();
        self.raw(request, 0).map_err(io::Error::from_raw_os_error).context("CLEAR failed")
    }

    pub(crate) fn version(&self) -> Result<ModuleVersion> {
        let mut version = ModuleVersion::SIZED;
        self.must(&mut version)?;
        Ok(version)
    }

    /// Manages a gpu: as many cycles as it takes, and no reservation after a burst.
    pub(crate) fn manage(&self, gpu_id: u32) -> Result<()> {
        let params = GpuParams {
            cycles_per_second: 0,
            linger_max: Nanos::ZERO,
            small: gpreempt_core::Permille::new(0),
            weigh: false,
            ..GpuParams::default()
        };
        self.must(&mut GpuArgs { gpu_id, managed: 1, params: params.into(), ..GpuArgs::SIZED })
    }

    /// Adds or changes a job.
    pub(crate) fn job(&self, job: u64, level: u8) -> Result<()> {
        self.must(&mut JobArgs { job, params: at_level(level), ..JobArgs::SIZED })
    }

    /// Holds a job for so many milliseconds; 0 releases it.
    pub(crate) fn hold(&self, job: u64, level: u8, milliseconds: u64) -> Result<()> {
        let hold_until_ns = if milliseconds == 0 { 0 } else { clock::monotonic_ns() + milliseconds * 1_000_000 };
        self.must(&mut JobArgs { job, hold_until_ns, params: at_level(level), ..JobArgs::SIZED })
    }

    pub(crate) fn remove_job(&self, job: u64) -> Answer<()> {
        self.call(&mut RemoveJobArgs { job, ..RemoveJobArgs::SIZED })
    }

    /// Says the job of a process, which may be stopped.
    pub(crate) fn process(&self, pid: u32, job: u64) -> Result<()> {
        self.must(&mut ProcessArgs {
            pid: pid.cast_signed(),
            start_time: start_time(pid)?,
            job,
            flags: ProcessFlags::STOPPABLE,
            ..ProcessArgs::SIZED
        })
    }

    /// Says the job of a cgroup, whose processes may be stopped.
    pub(crate) fn cgroup(&self, directory: &File, job: u64) -> Answer<()> {
        let fd = directory.as_raw_fd();
        self.call(&mut CgroupArgs { fd, job, flags: ProcessFlags::STOPPABLE, ..CgroupArgs::SIZED })
    }

    fn query<T: Abi + Copy>(&self, kind: QueryKind) -> Result<Vec<T>> {
        let mut records: Vec<T> = vec![T::ZERO; 64];
        loop {
            let mut args = QueryArgs {
                kind,
                records: records.as_mut_ptr().expose_provenance() as u64,
                record_size: size_of::<T>() as u32,
                room: records.len() as u32,
                ..QueryArgs::SIZED
            };
            self.must(&mut args)?;
            let count = args.count as usize;
            if count <= records.len() {
                records.truncate(count);
                return Ok(records);
            }
            records.resize(count, T::ZERO);
        }
    }

    pub(crate) fn gpus(&self) -> Result<Vec<GpuRecord>> {
        self.query(QueryKind::GPUS)
    }

    /// Returns the statistics of the first gpu.
    pub(crate) fn gpu(&self) -> Result<GpuRecord> {
        self.gpus()?.first().copied().context("there is no gpu")
    }

    pub(crate) fn jobs(&self) -> Result<Vec<JobRecord>> {
        self.query(QueryKind::JOBS)
    }

    pub(crate) fn tenants(&self) -> Result<Vec<TenantRecord>> {
        self.query(QueryKind::TENANTS)
    }

    /// Returns what is known of a process.
    pub(crate) fn tenant(&self, pid: u32) -> Result<Option<TenantRecord>> {
        Ok(self.tenants()?.into_iter().find(|tenant| tenant.pid == pid.cast_signed()))
    }

    /// Reads all events that there are.
    pub(crate) fn events(&self) -> Result<Vec<ModuleEvent>> {
        let mut events = Vec::new();
        let mut bytes = vec![0; 64 * size_of::<ModuleEvent>()];
        loop {
            match (&self.0).read(&mut bytes) {
                Ok(count) => {
                    ensure!(count > 0 && count.is_multiple_of(size_of::<ModuleEvent>()), "{count} bytes were read");
                    let read = bytes.get(..count).unwrap_or_default();
                    events.extend(read.chunks(size_of::<ModuleEvent>()).filter_map(ModuleEvent::decode));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(events),
                Err(error) => return Err(error).context("events cannot be read"),
            }
        }
    }
}
