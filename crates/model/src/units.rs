//! Durations and sizes as people write them.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A duration or a size that was not understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a {kind}: write a number and a unit, such as {examples}")]
pub struct UnitError {
    text: String,
    kind: &'static str,
    examples: &'static str,
}

/// A duration, written `250ms`, `30s`, `5m`, `24h`, `7d`; `0s` is none.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Span(pub Duration);

/// A number of bytes, written `512B`, `64KiB`, `2MiB`, `1GiB` (powers of 1024), or `1kB`, `1MB`, `1GB`.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ByteSize(pub u64);

const SPAN_UNITS: [(&str, u64); 6] =
    [("d", 86_400_000_000), ("h", 3_600_000_000), ("m", 60_000_000), ("s", 1_000_000), ("ms", 1_000), ("us", 1)];

const SIZE_UNITS: [(&str, u64); 9] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("B", 1),
];

/// Whole numbers and decimals (`1.5s`), exact to the smallest unit.
fn parse_units(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = (&text[..digits], text[digits..].trim());
    let scale = units.iter().find(|(name, _)| *name == unit)?.1;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let whole = whole.parse::<u64>().ok()?.checked_mul(scale)?;
    if fraction.is_empty() || fraction.len() > 6 {
        return None;
    }
    let part = fraction.parse::<u64>().ok()?.checked_mul(scale)? / 10_u64.pow(fraction.len() as u32);
    whole.checked_add(part)
}

fn print_units(value: u64, units: &[(&str, u64)], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let (name, scale) = units
        .iter()
        .find(|(_, scale)| value >= *scale && value.is_multiple_of(*scale))
        .unwrap_or(units.last().expect("the tables above are not empty"));
    write!(f, "{}{name}", value / scale)
}

impl FromStr for Span {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        parse_units(text, &SPAN_UNITS).map(|micros| Self(Duration::from_micros(micros))).ok_or_else(|| UnitError {
            text: text.to_owned(),
            kind: "duration",
            examples: "250ms, 30s, 5m, 24h or 7d",
        })
    }
}

impl FromStr for ByteSize {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        parse_units(text, &SIZE_UNITS).map(Self).ok_or_else(|| UnitError {
            text: text.to_owned(),
            kind: "size",
            examples: "64KiB, 2MiB or 1GB",
        })
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_zero() {
            return f.write_str("0s");
        }
        print_units(u64::try_from(self.0.as_micros()).unwrap_or(u64::MAX), &SPAN_UNITS, f)
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        print_units(self.0, &SIZE_UNITS, f)
    }
}

macro_rules! as_text {
    ($($unit:ty),*) => {$(
        impl fmt::Debug for $unit {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl TryFrom<String> for $unit {
            type Error = UnitError;

            fn try_from(text: String) -> Result<Self, UnitError> {
                text.parse()
            }
        }

        impl From<$unit> for String {
            fn from(value: $unit) -> Self {
                value.to_string()
            }
        }
    )*};
}
as_text!(Span, ByteSize);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read_and_written() {
        for (text, micros, back) in [
            ("250ms", 250_000, "250ms"),
            ("1.5s", 1_500_000, "1500ms"),
            ("90s", 90_000_000, "90s"),
            ("24h", 86_400_000_000, "1d"),
            ("0s", 0, "0s"),
            (" 5 m ", 300_000_000, "5m"),
        ] {
            let span: Span = text.parse().unwrap();
            assert_eq!(span.0, Duration::from_micros(micros), "{text}");
            assert_eq!(span.to_string(), back);
        }
        for text in ["", "5", "s", "5x", "-1s", "1.s", "99999999999999999999s", "18446744073709551615d"] {
            assert!(text.parse::<Span>().is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_are_read_and_written() {
        for (text, bytes, back) in
            [("1GiB", 1 << 30, "1GiB"), ("1.5KiB", 1536, "1536B"), ("10MB", 10_000_000, "10MB"), ("0B", 0, "0B")]
        {
            let size: ByteSize = text.parse().unwrap();
            assert_eq!(size.0, bytes, "{text}");
            assert_eq!(size.to_string(), back);
        }
        assert!("1 gigabyte".parse::<ByteSize>().is_err());
    }
}
