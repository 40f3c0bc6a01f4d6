//! What the tests of rules are made with: the gpu, and processes that open it.

use std::time::{Duration, Instant};

use kfd::topology::{Gpu, Properties};
use kfd_abi::cwsr::SaveAreaSize;
use kfd_abi::debug::{RuntimeEnableArgs, RuntimeMode};
use kfd_abi::ioctl::Argument;
use kfd_abi::process::AcquireVmArgs;
use kfd_abi::sysfs::node;

use crate::actor::{Actor, LOOK, PATIENCE, Reply};
use crate::cycles::CycleCounter;
use crate::interrupt;
use crate::transcript::Recorder;
use crate::verdict::{Trouble, Verdict, broken};

/// The gpu that rules are tested on.
#[derive(Clone, Debug)]
pub(crate) struct Subject {
    pub(crate) gpu: Gpu,
    pub(crate) properties: Properties,
    pub(crate) save_area: SaveAreaSize,
    /// How many gpus the topology lists.
    pub(crate) gpus: u32,
    /// How many nodes, processors among them.
    pub(crate) nodes: u32,
}

impl Subject {
    /// Reads the first gpu of the topology.
    pub(crate) fn first() -> Result<Subject, kfd::Error> {
        let gpus = kfd::topology::gpus_with_properties()?;
        let count = gpus.len() as u32;
        let Some((gpu, properties)) = gpus.into_iter().next() else {
            return Err(kfd::Error::Open {
                path: "/dev/kfd".into(),
                error: std::io::Error::from(std::io::ErrorKind::NotFound),
            });
        };
        let geometry = properties.geometry(&gpu)?;
        let save_area = SaveAreaSize::of(&geometry).ok_or_else(|| properties.unusable(node::SIMD_COUNT))?;
        let nodes = std::fs::read_dir(format!("{}/nodes", kfd_abi::sysfs::TOPOLOGY_DIR));
        let nodes = nodes.map_or(count, |entries| entries.count() as u32);
        Ok(Subject { gpu, properties, save_area, gpus: count, nodes })
    }

    /// Returns the driver's id of the gpu.
    pub(crate) fn id(&self) -> u32 {
        self.gpu.id.0
    }
}

/// What a test works with.
pub(crate) struct Bench<'a> {
    pub(crate) subject: &'a Subject,
    /// Arguments that make this executable an actor.
    pub(crate) actor: &'a [&'a str],
    pub(crate) counter: &'a CycleCounter,
    pub(crate) recorder: &'a Recorder,
}

/// A process that has the driver open.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) actor: Actor,
    pub(crate) kfd: i32,
    /// The open render node, of a client with an address space.
    pub(crate) render: Option<i32>,
    pub(crate) subject: Subject,
}

impl Bench<'_> {
    /// Starts a process that has not opened the driver.
    pub(crate) fn process(&self) -> Verdict<Actor> {
        Actor::start(self.actor, self.recorder)
    }

    /// Starts a process that opened the driver and did nothing else.
    pub(crate) fn client(&self) -> Verdict<Client> {
        let mut actor = self.process()?;
        let kfd = actor.open(kfd::KFD)?;
        Ok(Client { actor, kfd, render: None, subject: self.subject.clone() })
    }

    /// Starts a process with an address space on the gpu, whose runtime is not enabled.
    pub(crate) fn bound(&self) -> Verdict<Client> {
        let mut client = self.client()?;
        client.acquire_vm()?;
        Ok(client)
    }

    /// Starts a process as a runtime does: enabled for debuggers, with an address space on the gpu.
    pub(crate) fn program(&self) -> Verdict<Client> {
        let mut client = self.client()?;
        client.enable_runtime()?.ok("RUNTIME_ENABLE")?;
        client.acquire_vm()?;
        Ok(client)
    }
}

impl Client {
    pub(crate) fn pid(&self) -> u32 {
        self.actor.pid()
    }

    /// Makes a call.
    pub(crate) fn call<A: Argument>(&mut self, args: A) -> Verdict<Reply<A>> {
        self.actor.call(self.kfd, args)
    }

    pub(crate) fn enable_runtime(&mut self) -> Verdict<Reply<RuntimeEnableArgs>> {
        self.call(RuntimeEnableArgs { mode_mask: RuntimeMode::ENABLE, ..RuntimeEnableArgs::default() })
    }

    /// Opens the render node and makes its address space that of the process.
    pub(crate) fn acquire_vm(&mut self) -> Verdict {
        let path = format!("/dev/dri/renderD{}", self.subject.gpu.render_minor);
        let render = self.actor.open(&path)?;
        let gpu_id = self.subject.id();
        self.call(AcquireVmArgs { drm_fd: render.cast_unsigned(), gpu_id })?.ok("ACQUIRE_VM")?;
        self.render = Some(render);
        Ok(())
    }
}

/// Waits until something is so, and says what is not if it does not become so.
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> Verdict<bool>) -> Verdict {
    let begun = Instant::now();
    while !holds()? {
        if begun.elapsed() > PATIENCE || interrupt::came() {
            return broken(format_args!("{what}: not within {} s", PATIENCE.as_secs()));
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
}

/// How long something is watched that must not happen. Long enough for a wrong driver to do it on a busy machine.
pub(crate) const WATCH: Duration = Duration::from_millis(60);

/// Reads a file of the driver; a file that may not be read leaves the rule unchecked.
pub(crate) fn driver_file(path: &str) -> Verdict<String> {
    std::fs::read_to_string(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::PermissionDenied => Trouble::Unchecked(format!("{path} may not be read: run it as root")),
        std::io::ErrorKind::NotFound if path.starts_with(kfd_abi::sysfs::DEBUG_DIR) => {
            Trouble::Unchecked(format!("there is no {path}: debugfs is not mounted, or the kernel has none"))
        }
        _ => Trouble::Broken(format!("{path}: {error}")),
    })
}
