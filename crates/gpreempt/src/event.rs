//! Events as lines of text, for `log` and `watch`.

use gpreempt_proto::{Event, EventKind};

use crate::output::{count, from_micros, plain, span};

/// Longest job name in a line.
const LONGEST_JOB: usize = 40;

/// Formats an event as one line: time, gpu, process, job, event.
pub(crate) fn line(event: &Event) -> String {
    let gpu = event.gpu.as_deref().unwrap_or("-");
    let pid = event.pid.map_or_else(|| "-".to_owned(), |pid| pid.to_string());
    let job = event.job.as_deref().map_or_else(|| "-".to_owned(), |job| plain(job, LONGEST_JOB));
    format!("{} {gpu:<12} {pid:>7} {job}: {}", utc(event.at_ms), plain(&what(&event.kind), usize::MAX))
}

fn what(kind: &EventKind) -> String {
    match kind {
        EventKind::Appeared { level: Some(level), rule } => {
            format!(
                "appeared at level {level}{}",
                rule.as_ref().map_or_else(String::new, |rule| format!(", rule {rule}"))
            )
        }
        EventKind::Appeared { level: None, .. } => {
            "appeared; no rule gives it a level: never stopped, never protected".to_owned()
        }
        EventKind::Gone => "gone".to_owned(),
        EventKind::Preempted { reason, by, bound, after_us, took_us, queues, seen_ns: _ } => format!(
            "stopped{} ({reason}, {bound}){}, {} in {}",
            account(by.as_deref()),
            // A hold ends no inversion.
            if *after_us > 0.0 { format!(" after {}", from_micros(*after_us)) } else { String::new() },
            count((*queues).into(), "queue", "queues"),
            from_micros(*took_us)
        ),
        EventKind::Resumed { reason, stopped_us, took_us } => {
            format!("resumed ({reason}) after {}, in {}", from_micros(*stopped_us), from_micros(*took_us))
        }
        EventKind::WouldPreempt { reason, by } => {
            format!("would have been stopped{} ({reason})", account(by.as_deref()))
        }
        EventKind::InversionEnded { lasted_us, winnable_us } => format!(
            "inversion ended by itself after {}; a stop would have saved about {} (estimate)",
            from_micros(*lasted_us),
            from_micros(*winnable_us)
        ),
        EventKind::Failed { action, message } => format!("{action} failed: {message}"),
        EventKind::LevelSet { from, to, by_uid } => format!("level {from} -> {to}, set by uid {by_uid}"),
        EventKind::Held { seconds, by_uid } => format!("held for {} by uid {by_uid}", span(*seconds as f64)),
        EventKind::Released => "hold ended".to_owned(),
        EventKind::Unmanaged { by_uid } => format!("unmanaged by uid {by_uid}: never stopped, never protected"),
        EventKind::Managed { by_uid } => format!("managed again, by uid {by_uid}"),
        EventKind::BackedOff { message, seconds } => format!("left to the hardware for {}: {message}", span(*seconds)),
        EventKind::Recovered => "managed again".to_owned(),
        EventKind::Actuator { message } => format!("actuator: {message}"),
        EventKind::Reloaded { message } => format!("configuration: {message}"),
        EventKind::Other => "an event that this release does not know".to_owned(),
    }
}

fn account(by: Option<&str>) -> String {
    by.map_or_else(String::new, |by| format!(" for {by}"))
}

/// Formats milliseconds since 1970 as date and time in UTC.
fn utc(ms: u64) -> String {
    let time = i64::try_from(ms).ok().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    time.map_or_else(|| format!("{ms} ms after 1970"), |time| format!("{time:.3}"))
}

#[cfg(test)]
mod tests {
    use gpreempt_proto::{Bound, Reason};

    use super::*;

    #[test]
    fn dates_know_leap_years() {
        assert_eq!(utc(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(utc(951_827_696_789), "2000-02-29T12:34:56.789Z");
        assert_eq!(utc(1_709_251_199_999), "2024-02-29T23:59:59.999Z");
        assert_eq!(utc(4_107_542_400_000), "2100-03-01T00:00:00.000Z");
        assert_eq!(utc(u64::MAX), "18446744073709551615 ms after 1970", "a wrong clock is shown, not hidden");
    }

    #[test]
    fn a_stop_is_shown_with_process_cause_reason_and_duration() {
        let kind = EventKind::Preempted {
            reason: Reason::HigherWants,
            by: Some("serve".into()),
            bound: Bound::Patience,
            after_us: 350.0,
            took_us: 1250.0,
            queues: 4,
            seen_ns: Some(77),
        };
        let event = Event {
            at_ms: 951_827_696_789,
            kind,
            gpu: Some("0000:c1:00.0".into()),
            pid: Some(4711),
            job: Some("train".into()),
            uid: Some(1000),
        };
        assert_eq!(
            line(&event),
            "2000-02-29T12:34:56.789Z 0000:c1:00.0    4711 train: stopped for serve (higher_wants, patience) after 350 us, \
             4 queues in 1.25 ms"
        );
    }

    #[test]
    fn a_message_of_several_lines_stays_one_line() {
        let kind = EventKind::Reloaded { message: "refused:\n\u{1b}[31mline 3".into() };
        let event = Event { at_ms: 0, kind, gpu: None, pid: None, job: None, uid: None };
        assert_eq!(
            line(&event),
            "1970-01-01T00:00:00.000Z -                  - -: configuration: refused:??[31mline 3"
        );
    }
}
