//! Reading the configuration again.

use std::sync::mpsc::Sender;
use std::time::{SystemTime, UNIX_EPOCH};

use gpreempt_proto::{Answer, Event, EventKind, Refusal, RefusalKind};

use super::Publisher;
use crate::config::Config;
use crate::inbox::Input;

/// Reads the configuration from where the daemon has it from; the error is for the operator, whole and with its place.
pub type Load = Box<dyn Fn() -> Result<Config, String> + Send>;

/// Reads the configuration again. A good one goes to the engine, a bad one nowhere. Either way there is an event and a
/// line in the log.
pub fn reload(load: &Load, publisher: &Publisher, to_engine: &Sender<Input>) -> Answer {
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
    if to_engine.send(Input::Configured(Box::new(config))).is_err() {
        return Answer::Refused(Refusal { kind: RefusalKind::Busy, message: "the daemon ends".to_owned() });
    }
    tracing::info!("configuration read again: {source}");
    publisher.note(event(format!("read again: {source}")));
    Answer::Done { note: Some(format!("configuration read again: {source}")) }
}

fn event(message: String) -> Event {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let at_ms = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
    Event { at_ms, kind: EventKind::Reloaded { message }, gpu: None, pid: None, job: None, uid: None }
}
