//! The workload of the demo: `demo.toml`.

use std::path::Path;

use anyhow::Result;
use gpreempt_output::BlameUser as _;
use toml_source::{Document, InvalidDocument, ReadError, ReadLimits, Source, Table};

/// The built-in workload.
pub(crate) const BUILT_IN: &str = include_str!("../../demo.toml");

/// The whole file.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Workload {
    pub(crate) online: Online,
    pub(crate) offline: Offline,
    pub(crate) blocks: Blocks,
    pub(crate) virtual_gpu: VirtualGpu,
}

/// Requests that arrive at random.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Online {
    pub(crate) kernels: u32,
    pub(crate) kernel_us: f64,
    pub(crate) groups: u32,
    pub(crate) duty: f64,
    pub(crate) level: u8,
}

/// Kernels without a pause.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Offline {
    pub(crate) kernel_ms: f64,
    pub(crate) fill: u32,
    pub(crate) queued: u32,
    pub(crate) level: u8,
}

/// How measurements are spread over time.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Blocks {
    pub(crate) rounds: u32,
    pub(crate) requests: u32,
    pub(crate) alone_ms: u64,
    pub(crate) patience_ms: u64,
}

/// The gpu if there is none.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct VirtualGpu {
    pub(crate) profile: String,
    pub(crate) cus: Option<u32>,
}

/// Files that are read. Pipes are allowed, so that a shell can generate a workload.
const LIMITS: ReadLimits = ReadLimits { max_bytes: 1 << 20, regular_only: false };

/// Why a workload that the user named cannot be used.
#[derive(Debug, thiserror::Error)]
enum WorkloadError {
    /// The file cannot be read.
    #[error("cannot read {file}: {error}; `gpreempt demo --print-config` prints one to start from")]
    Unreadable { file: String, error: ReadError },
    /// The file has mistakes: all of them, with their positions.
    #[error(transparent)]
    Invalid(#[from] InvalidDocument),
}

impl Workload {
    /// Reads the workload of a file, or the built-in one.
    pub(crate) fn load(file: Option<&Path>) -> Result<Workload> {
        let source = match file {
            None => Source::new("the built-in workload", BUILT_IN),
            Some(path) => Source::read(path, LIMITS)
                .map_err(|error| WorkloadError::Unreadable { file: path.display().to_string(), error })
                .blame_user()?,
        };
        Ok(Workload::parse(&source).blame_user()?)
    }

    fn parse(source: &Source) -> Result<Workload, WorkloadError> {
        let document = Document::parse(source)?;
        let root = document.root(&["online", "offline", "blocks", "virtual"]);
        let online = root.section("online", &["kernels", "kernel_us", "groups", "duty", "level"]);
        let offline = root.section("offline", &["kernel_ms", "fill", "queued", "level"]);
        let blocks = root.section("blocks", &["rounds", "requests", "alone_ms", "patience_ms"]);
        let virtual_gpu = root.section("virtual", &["profile", "cus"]);
        let whole = |table: &Table<'_>, key, range| table.required(key).whole(range).unwrap_or_default();
        let number = |table: &Table<'_>, key, range| table.required(key).number(range, "").unwrap_or_default();
        let level = |table: &Table<'_>| table.required("level").byte(0..=15);
        let levels = (level(&online), level(&offline));
        if let (Some(high), Some(low)) = levels
            && high <= low
        {
            online.field("level").reject(format_args!("a level higher than offline.level, which is {low}"));
        }
        let workload = Workload {
            online: Online {
                kernels: whole(&online, "kernels", 1..=512),
                kernel_us: number(&online, "kernel_us", 10.0..=1e6),
                groups: whole(&online, "groups", 1..=65536),
                duty: number(&online, "duty", 0.001..=0.95),
                level: levels.0.unwrap_or_default(),
            },
            offline: Offline {
                kernel_ms: number(&offline, "kernel_ms", 0.1..=10_000.0),
                fill: whole(&offline, "fill", 1..=64),
                queued: whole(&offline, "queued", 2..=64),
                level: levels.1.unwrap_or_default(),
            },
            blocks: Blocks {
                rounds: whole(&blocks, "rounds", 1..=1000),
                requests: whole(&blocks, "requests", 1..=1_000_000),
                alone_ms: whole(&blocks, "alone_ms", 10..=1_000_000).into(),
                patience_ms: whole(&blocks, "patience_ms", 0..=1_000_000).into(),
            },
            virtual_gpu: VirtualGpu {
                profile: virtual_gpu.required("profile").words("a profile in quotes").unwrap_or_default().to_owned(),
                cus: virtual_gpu.field("cus").whole(1..=u32::MAX),
            },
        };
        Ok(document.finish(workload)?)
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
    use std::fs;

    use gpreempt_output::UserError;

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
        assert!(error.is::<UserError>() && error.to_string().contains("--print-config"), "{error:#}");
        let file = folder.path().join("mine.toml");
        for (from, to, said) in [
            ("duty = 0.3", "duty = 3", ":9:8: online.duty: found 3, expected a number from 0.001 to 0.95"),
            ("level = 12", "level = 2", ":10:9: online.level: found 2, expected a level higher than offline.level"),
            ("rounds = 3", "rounds = 0", ":19:10: blocks.rounds: found 0, expected a whole number from 1 to 1000"),
            ("queued = 3", "queues = 3", ":15:1: unknown key `queues` in [offline]; did you mean `queued`?"),
        ] {
            assert!(BUILT_IN.contains(from), "{from}");
            fs::write(&file, BUILT_IN.replace(from, to)).unwrap();
            let error = Workload::load(Some(&file)).unwrap_err();
            assert!(error.is::<UserError>());
            let error = format!("{error:#}");
            assert!(error.contains(said) && error.contains("mine.toml"), "{error}");
        }
    }
}
