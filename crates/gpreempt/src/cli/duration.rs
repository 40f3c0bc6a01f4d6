//! Times as people write them: 500ms, 30s, 10m, 2h, 1d.

use std::time::Duration;

const UNITS: [(&str, f64); 5] = [("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0), ("d", 86_400.0)];
const LONGEST_DAYS: f64 = 365.0;

/// A time with its unit.
pub(super) fn parse(text: &str) -> Result<Duration, String> {
    let digits = text.find(|letter: char| letter.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let seconds = UNITS.iter().find(|(name, _)| *name == unit).and_then(|(_, factor)| {
        let number: f64 = number.parse().ok()?;
        Some(number * factor)
    });
    match seconds {
        Some(seconds) if seconds > 0.0 && seconds <= LONGEST_DAYS * 86_400.0 => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("expected a time with its unit, such as 500ms, 30s, 10m, 2h or 1d".to_owned()),
    }
}

/// A time in whole seconds, at least one.
pub(super) fn whole_seconds(text: &str) -> Result<u64, String> {
    let seconds = parse(text)?.as_secs_f64();
    if seconds.fract() == 0.0 {
        Ok(seconds as u64)
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
        assert_eq!(parse("1.5m"), Ok(Duration::from_secs(90)));
        assert_eq!(parse("2h"), Ok(Duration::from_secs(7200)));
        for text in ["", "5", "s", "-1s", "0s", "nan s", "infs", "1e9d", "5 parsecs", "ü"] {
            assert!(parse(text).is_err(), "{text:?} was accepted");
        }
    }

    #[test]
    fn holds_last_whole_seconds() {
        assert_eq!(whole_seconds("90s"), Ok(90));
        assert!(whole_seconds("500ms").is_err());
    }
}
