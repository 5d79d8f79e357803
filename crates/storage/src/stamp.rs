//! Time as the formats on disk write it, always in UTC.

use model::Time;
use time::OffsetDateTime;

/// The last microsecond of the year 9999, where the four digits of a year end.
const LAST: u64 = 253_402_300_799_999_999;

fn civil(at: Time) -> OffsetDateTime {
    OffsetDateTime::from_unix_timestamp_nanos(i128::from(at.as_micros().min(LAST)) * 1000)
        .expect("years 1970 to 9999 are in range")
}

/// `2026-11-20T18:25:56.123456Z`: WARC 1.1 §5.4 allows up to nine fractional digits.
pub(crate) fn iso_micros(at: Time) -> String {
    let at = civil(at);
    let (date, micros) = (iso_seconds(at), at.microsecond());
    format!("{date}.{micros:06}Z")
}

/// `2026-11-20T18:25:56.123Z`, the first column of crawl.log.
pub(crate) fn iso_millis(at: Time) -> String {
    let at = civil(at);
    let (date, millis) = (iso_seconds(at), at.millisecond());
    format!("{date}.{millis:03}Z")
}

/// `20261120182556`, the timestamp of CDX files.
pub(crate) fn digits_14(at: Time) -> String {
    let at = civil(at);
    let (year, month, day) = (at.year(), u8::from(at.month()), at.day());
    let (hour, minute, second) = at.to_hms();
    format!("{year:04}{month:02}{day:02}{hour:02}{minute:02}{second:02}")
}

/// `20261120182556123`: with milliseconds, as file names and crawl.log have it.
pub(crate) fn digits_17(at: Time) -> String {
    format!("{}{:03}", digits_14(at), civil(at).millisecond())
}

fn iso_seconds(at: OffsetDateTime) -> String {
    let (year, month, day) = (at.year(), u8::from(at.month()), at.day());
    let (hour, minute, second) = at.to_hms();
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_an_instant() {
        for (micros, micro_form, milli_form, long_digits) in [
            (0, "1970-01-01T00:00:00.000000Z", "1970-01-01T00:00:00.000Z", "19700101000000000"),
            (1_709_210_096_987_654, "2024-02-29T12:34:56.987654Z", "2024-02-29T12:34:56.987Z", "20240229123456987"),
            (u64::MAX, "9999-12-31T23:59:59.999999Z", "9999-12-31T23:59:59.999Z", "99991231235959999"),
        ] {
            let at = Time::from_micros(micros);
            assert_eq!(iso_micros(at), micro_form);
            assert_eq!(iso_millis(at), milli_form);
            assert_eq!(digits_17(at), long_digits);
            assert_eq!(digits_14(at), long_digits[..14]);
        }
    }
}
