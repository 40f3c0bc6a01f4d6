//! Log messages of the daemon, guardian and actuator: lines on stderr.

use std::io;

use tracing_subscriber::EnvFilter;

/// The environment variable that selects messages: a level such as `debug`, or `gpreemptd::host=trace,info`.
const VARIABLE: &str = "GPREEMPT_LOG";
const USUAL: &str = "info";

/// Runs a function with log messages enabled.
pub(crate) fn with<T>(run: impl FnOnce() -> T) -> T {
    start();
    run()
}

fn start() {
    let wanted = std::env::var(VARIABLE).unwrap_or_default();
    let filter = EnvFilter::try_new(if wanted.is_empty() { USUAL } else { &wanted });
    let misread = filter.as_ref().err().map(ToString::to_string);
    let filter = filter.unwrap_or_else(|_| EnvFilter::new(USUAL));
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).with_ansi(false);
    // The journal has times of its own.
    let started =
        if std::env::var_os("JOURNAL_STREAM").is_some() { lines.without_time().try_init() } else { lines.try_init() };
    if let (Ok(()), Some(error)) = (started, misread) {
        tracing::warn!("{VARIABLE}={wanted} is ignored: {error}; try `debug`");
    }
}
