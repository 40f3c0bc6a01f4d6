//! Durations on the command line: 500ms, 30s, 10m, 2h, 1d, 1h 30m.

use std::time::Duration;

const LONGEST: Duration = Duration::from_secs(365 * 86_400);

/// Parses a duration with its unit, up to a year.
pub(super) fn parse(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(duration) if !duration.is_zero() && duration <= LONGEST => Ok(duration),
        Ok(_) => Err("expected more than 0 and at most 365d".to_owned()),
        Err(_) => Err("expected a duration with its unit, such as 500ms, 30s, 10m, 2h or 1d".to_owned()),
    }
}

/// Parses a duration in whole seconds, at least one.
pub(super) fn whole_seconds(text: &str) -> Result<u64, String> {
    let duration = parse(text)?;
    if duration.subsec_nanos() == 0 {
        Ok(duration.as_secs())
    } else {
        Err("expected whole seconds, such as 30s or 10m".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        assert_eq!(parse("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse("1m 30s"), Ok(Duration::from_secs(90)));
        assert_eq!(parse("1.5m"), Ok(Duration::from_secs(90)));
        assert_eq!(parse("2h"), Ok(Duration::from_secs(7200)));
        for text in ["", "5", "s", "-1s", "0s", "nan s", "infs", "1e9d", "400d", "5 parsecs", "ü"] {
            assert!(parse(text).is_err(), "{text:?} was accepted");
        }
    }

    #[test]
    fn holds_last_whole_seconds() {
        assert_eq!(whole_seconds("90s"), Ok(90));
        assert!(whole_seconds("500ms").is_err());
    }
}
