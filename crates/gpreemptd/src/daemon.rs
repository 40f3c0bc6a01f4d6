//! The daemon as a whole: reads its configuration, starts its threads, handles signals, and leaves all queues running
//! when it ends.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

use gpreempt_core::Nanos;
use gpreempt_proto::Mode;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use sd_notify::NotifyState;

use crate::actuate::{ActuatorChoice, LinkReaper};
use crate::config::{Config, ConfigError};
use crate::control::{Handle, Publisher, Server, ServerError};
use crate::host::{Host, Setup};
use crate::inbox::Input;
use crate::os::channel::channel;
use crate::{clock, discovery, panic_hook};

/// The operator's configuration. It need not exist.
pub const CONFIG: &str = "/etc/gpreempt/gpreempt.toml";

/// Period in milliseconds at which the main thread checks the others.
const ROUND: u16 = 200;

/// A deciding thread that has not acted for this long gets no watchdog notification.
const STUCK: Nanos = Nanos::from_secs(2);

/// Options of the command line.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The configuration; [`CONFIG`] if it exists, else the defaults.
    pub config: Option<PathBuf>,
    /// The control socket.
    pub socket: Option<PathBuf>,
    /// Replaces the mode of the configuration.
    pub mode: Option<Mode>,
    /// Replaces the `spin_core` of the configuration.
    pub spin_core: Option<usize>,
}

/// Why the daemon did not start, or ended.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The configuration is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The control socket cannot be served.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// The runtime directory cannot be created.
    #[error("cannot create {}: {error}; choose another place with --socket", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The configured actuator is not available.
    #[error("{0}")]
    Actuator(String),
    /// A thread cannot be started, signals cannot be blocked, or the executable is not known.
    #[error("cannot start: {0}")]
    System(#[from] io::Error),
    /// The core refused its memory.
    #[error("the scheduler cannot start: {0}")]
    Core(#[source] gpreempt_core::Error),
    /// A thread ended although the daemon runs.
    #[error("a thread failed; everything was resumed. The log above says why")]
    Panicked,
}

/// Reads the configuration that the options name.
fn load(options: &Options) -> Result<Config, ConfigError> {
    let default = Path::new(CONFIG);
    let mut config = match &options.config {
        Some(path) => Config::load(path)?,
        None if default.exists() => Config::load(default)?,
        None => Config::default(),
    };
    if let Some(mode) = options.mode {
        config.mode = mode;
    }
    if options.spin_core.is_some() {
        config.watch.spin_core = options.spin_core;
    }
    Ok(config)
}

/// Runs the daemon until SIGTERM or SIGINT.
///
/// # Errors
///
/// If it cannot start, or its deciding thread fails.
pub fn run(options: &Options) -> Result<(), Error> {
    panic_hook::abort_on_panic();
    // Its memory holds what it read from others. Where the limit cannot be lowered, the administrator decided
    // otherwise.
    let _ = setrlimit(Resource::RLIMIT_CORE, 0, 0);
    let config = load(options)?;
    for warning in config.warnings() {
        tracing::warn!("{warning}");
    }
    check_actuator(&config).map_err(Error::Actuator)?;
    let socket = options.socket.clone().unwrap_or_else(gpreempt_proto::socket_path);
    let directory = socket.parent().map_or_else(|| PathBuf::from("."), Path::to_path_buf);
    std::fs::create_dir_all(&directory).map_err(|error| Error::Directory { path: directory.clone(), error })?;
    // Before any thread starts, so that none of them takes a signal.
    let signals = block_signals()?;
    let server = Server::bind(&socket)?;
    let (to_host, inbox) = channel()?;
    let publisher = Publisher::new(config.log_events)?;
    let reload = {
        let options = options.clone();
        move || {
            let config = load(&options).map_err(|error| error.to_string())?;
            check_actuator(&config).map(|()| config)
        }
    };
    let serving = server.start(Arc::clone(&publisher), to_host.clone(), Box::new(reload))?;
    let mode = config.mode;
    let alive = Arc::new(AtomicU64::new(0));
    let host = Host::new(Setup {
        discovery: discovery::start(
            discovery::Settings { scan: config.scan, variables: config.variables() },
            to_host.clone(),
        )?,
        reaper: LinkReaper::start()?,
        program: std::env::current_exe()?,
        directory,
        publisher,
        alive: Arc::clone(&alive),
        config,
    })
    .map_err(Error::Core)?;
    let deciding = thread::Builder::new().name("decide".into()).spawn(move || host.run(&inbox))?;
    tracing::info!("serving {}; {}", socket.display(), mode_in_words(mode));
    let _ = sd_notify::notify(false, &[NotifyState::Ready]);
    let outcome = attend(&signals, &serving, &deciding, &alive);
    let _ = sd_notify::notify(false, &[NotifyState::Stopping]);
    let _ = to_host.send(Input::Stop);
    let ended = deciding.join();
    // Last, so that pending requests are answered.
    drop(serving);
    match ended {
        Ok(()) => outcome,
        Err(_) => Err(Error::Panicked),
    }
}

/// Checks that the driver has the actuator on which the configuration insists. Another process asks the driver: this
/// one never opens it.
fn check_actuator(config: &Config) -> Result<(), String> {
    // The scheduler in the kernel also observes.
    let needed = match config.actuator {
        ActuatorChoice::Auto | ActuatorChoice::DebugTrap => false,
        ActuatorChoice::Combined => config.mode == Mode::Enforce,
        ActuatorChoice::Kernel => true,
    };
    if !needed {
        return Ok(());
    }
    let asked = std::env::current_exe().and_then(|program| {
        let words = ["actuator", "--actuator", config.actuator.as_str(), "--check"];
        Command::new(program).args(words).stdin(Stdio::null()).stdout(Stdio::piped()).output()
    });
    match asked {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(String::from_utf8_lossy(&output.stdout).trim_end().to_owned()),
        Err(error) => Err(format!("cannot ask for the actuator {}: {error}", config.actuator)),
    }
}

fn mode_in_words(mode: Mode) -> &'static str {
    match mode {
        Mode::Observe | Mode::Other => "only observing: nothing is stopped",
        Mode::Enforce => "enforcing",
    }
}

fn block_signals() -> io::Result<SignalFd> {
    let mut set = SigSet::empty();
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        set.add(signal);
    }
    set.thread_block()?;
    Ok(SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?)
}

/// Handles signals and notifies the watchdog until the daemon is to end.
fn attend(signals: &SignalFd, serving: &Handle, deciding: &JoinHandle<()>, alive: &AtomicU64) -> Result<(), Error> {
    let watchdog = sd_notify::watchdog_enabled(false, &mut 0);
    loop {
        let mut fds = [PollFd::new(std::os::fd::AsFd::as_fd(signals), PollFlags::POLLIN)];
        if let Err(error) = poll(&mut fds, PollTimeout::from(ROUND))
            && error != nix::errno::Errno::EINTR
        {
            return Err(io::Error::from(error).into());
        }
        while let Ok(Some(signal)) = signals.read_signal() {
            if signal.ssi_signo != Signal::SIGHUP as u32 {
                return Ok(());
            }
            serving.reload();
        }
        if deciding.is_finished() || !serving.is_serving() {
            return Err(Error::Panicked);
        }
        let idle = clock::now().since(Nanos(alive.load(Ordering::Relaxed)));
        if watchdog && idle < STUCK {
            let _ = sd_notify::notify(false, &[NotifyState::Watchdog]);
        }
    }
}
