//! What the demo runs: `demo.toml`.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

/// The built-in workload.
pub(crate) const BUILT_IN: &str = include_str!("../../demo.toml");

/// The whole file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Workload {
    pub(crate) online: Online,
    pub(crate) offline: Offline,
    pub(crate) blocks: Blocks,
    #[serde(rename = "virtual")]
    pub(crate) virtual_gpu: VirtualGpu,
}

/// Requests that arrive at random.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Online {
    pub(crate) kernels: u32,
    pub(crate) kernel_us: f64,
    pub(crate) groups: u32,
    pub(crate) duty: f64,
    pub(crate) level: u8,
}

/// Kernels without a pause.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Offline {
    pub(crate) kernel_ms: f64,
    pub(crate) fill: u32,
    pub(crate) queued: u32,
    pub(crate) level: u8,
}

/// How measurements are spread over time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Blocks {
    pub(crate) rounds: u32,
    pub(crate) requests: u32,
    pub(crate) alone_ms: u64,
    pub(crate) patience_ms: u64,
}

/// The gpu if there is none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct VirtualGpu {
    pub(crate) profile: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cus: Option<u32>,
}

/// What is wrong with a file that the user named.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Unusable(String);

/// Whether an error is about what the user gave.
pub fn is_input(error: &anyhow::Error) -> bool {
    error.is::<Unusable>()
}

impl Workload {
    /// The workload of a file, or the built-in one.
    pub(crate) fn load(file: Option<&Path>) -> Result<Workload> {
        let (name, text) = match file {
            None => ("the built-in workload".to_owned(), BUILT_IN.to_owned()),
            Some(path) => {
                let name = path.display().to_string();
                let remedy = "`gpreempt demo --print-config` prints one to start from";
                let text =
                    fs::read_to_string(path).with_context(|| Unusable(format!("cannot read {name}; {remedy}")))?;
                (name, text)
            }
        };
        let unusable = || Unusable(format!("{name} is no workload"));
        let workload: Workload = toml::from_str(&text).with_context(unusable)?;
        workload.check().with_context(unusable)?;
        Ok(workload)
    }

    fn check(&self) -> Result<()> {
        let Workload { online, offline, blocks, .. } = self;
        let within = |name: &str, value: f64, low: f64, high: f64| {
            ensure!((low..=high).contains(&value), "{name} is {value}, expected {low} to {high}");
            Ok(())
        };
        within("online.kernels", online.kernels.into(), 1.0, 512.0)?;
        within("online.kernel_us", online.kernel_us, 10.0, 1e6)?;
        within("online.groups", online.groups.into(), 1.0, 65536.0)?;
        within("online.duty", online.duty, 0.001, 0.95)?;
        within("online.level", online.level.into(), 0.0, 15.0)?;
        within("offline.kernel_ms", offline.kernel_ms, 0.1, 10_000.0)?;
        within("offline.fill", offline.fill.into(), 1.0, 64.0)?;
        within("offline.queued", offline.queued.into(), 2.0, 64.0)?;
        within("offline.level", offline.level.into(), 0.0, 15.0)?;
        within("blocks.rounds", blocks.rounds.into(), 1.0, 1000.0)?;
        within("blocks.requests", blocks.requests.into(), 1.0, 1e6)?;
        within("blocks.alone_ms", blocks.alone_ms as f64, 10.0, 1e6)?;
        within("blocks.patience_ms", blocks.patience_ms as f64, 0.0, 1e6)?;
        ensure!(online.level > offline.level, "online.level has to be higher than offline.level");
        Ok(())
    }

    /// Requests of one block.
    pub(crate) fn block_requests(&self) -> u32 {
        self.blocks.requests.div_ceil(self.blocks.rounds)
    }

    /// Requests in a second, if a kernel takes `kernel_us`.
    pub(crate) fn rate(&self, kernel_us: f64) -> f64 {
        self.online.duty / (f64::from(self.online.kernels) * kernel_us * 1e-6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_workload_is_what_the_demo_promises() {
        let workload = Workload::load(None).unwrap();
        assert!(workload.blocks.requests >= 300 && workload.offline.kernel_ms >= 50.0);
        assert!(workload.block_requests() * workload.blocks.rounds >= workload.blocks.requests);
        // Requests of 10 ms that take 30 % of the time arrive every 33 ms.
        assert!((workload.rate(500.0) - 30.0).abs() < 1e-9);
    }

    #[test]
    fn mistakes_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let error = Workload::load(Some(&folder.path().join("none.toml"))).unwrap_err();
        assert!(is_input(&error) && error.to_string().contains("--print-config"), "{error:#}");
        let file = folder.path().join("mine.toml");
        for (from, to, said) in [
            ("duty = 0.3", "duty = 3", "online.duty is 3"),
            ("level = 12", "level = 2", "has to be higher"),
            ("rounds = 3", "rounds = 0", "blocks.rounds is 0"),
            ("queued = 3", "queues = 3", "unknown field `queues`"),
        ] {
            assert!(BUILT_IN.contains(from), "{from}");
            fs::write(&file, BUILT_IN.replace(from, to)).unwrap();
            let error = Workload::load(Some(&file)).unwrap_err();
            assert!(is_input(&error));
            let error = format!("{error:#}");
            assert!(error.contains(said) && error.contains("mine.toml"), "{error}");
        }
    }
}
