//! Reloads the configuration.

use gpreempt_proto::{Answer, Event, EventKind, Refusal, RefusalKind};

use super::Publisher;
use crate::config::Config;
use crate::inbox::{Input, InputSender};

/// Reads the configuration from the daemon's file; the error is for the operator, with file and line.
pub type LoadConfig = Box<dyn Fn() -> Result<Config, String> + Send>;

/// Reads the configuration again and gives it to the host; one with an error is refused and the old one stays. Logs
/// an event and a message either way.
pub fn reload(load: &LoadConfig, publisher: &Publisher, to_host: &InputSender) -> Answer {
    let config = match load() {
        Ok(config) => config,
        Err(error) => {
            tracing::error!("configuration refused, the old one stays: {error}");
            publisher.note(event(format!("refused, the old one stays: {error}")));
            return Answer::Refused(Refusal { kind: RefusalKind::Configuration, message: error });
        }
    };
    let source = config.source.as_ref().map_or_else(|| "built in".to_owned(), |path| path.display().to_string());
    publisher.set_log_events(config.log_events);
    if to_host.send(Input::Configured(Box::new(config))).is_err() {
        return Answer::Refused(Refusal { kind: RefusalKind::Busy, message: "the daemon is shutting down".to_owned() });
    }
    tracing::info!("configuration read again: {source}");
    publisher.note(event(format!("read again: {source}")));
    Answer::Done { note: Some(format!("configuration read again: {source}")) }
}

fn event(message: String) -> Event {
    Event {
        at_ms: linux_host::clock::wall_ms(),
        kind: EventKind::Reloaded { message },
        gpu: None,
        pid: None,
        job: None,
        uid: None,
    }
}
