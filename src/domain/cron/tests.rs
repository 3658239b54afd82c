//! Tables of expressions, zones and changes of the clock.

use super::*;

const DAY_MS: u64 = 86_400_000;

/// A moment as RFC 3339.
fn at(text: &str) -> u64 {
    let Ok(Due::At(ms)) = Due::parse_at(text.as_bytes()) else { panic!("{text}") };
    ms
}

fn moments(expr: &str, zone: Option<&str>, now: &str) -> Moments {
    Moments::parse(expr.as_bytes(), zone.map(str::as_bytes), at(now))
        .unwrap_or_else(|error| panic!("{expr}: {error}"))
}

/// Each row: expression, zone, a moment, and the next ones as the zone's clock shows them.
fn check(rows: &[(&str, &str, &str, &[&str])]) {
    for (expr, zone, now, wanted) in rows {
        let moments = moments(expr, Some(zone).filter(|zone| !zone.is_empty()).copied(), now);
        let mut after = at(now);
        for wanted in *wanted {
            after = moments.next(after).unwrap();
            assert_eq!(moments.shown(after), *wanted, "{expr} {zone} after {now}");
        }
    }
}

#[test]
fn expressions() {
    check(&[
        (
            "* * * * *",
            "",
            "2026-11-23T11:00:59.999Z",
            &["2026-11-23T11:01:00+00:00", "2026-11-23T11:02:00+00:00"],
        ),
        (
            "* * * * * *",
            "",
            "2026-11-23T23:59:58.500Z",
            &["2026-11-23T23:59:59+00:00", "2026-11-24T00:00:00+00:00"],
        ),
        // Behind a moment, not at it.
        ("0 3 * * *", "UTC", "2026-11-23T03:00:00Z", &["2026-11-24T03:00:00+00:00"]),
        ("0 3 * * *", "UTC", "2026-11-23T02:59:59.999Z", &["2026-11-23T03:00:00+00:00"]),
        (
            "*/20 9-10 * * mon-fri",
            "utc",
            "2026-11-20T10:30:00Z",
            &["2026-11-20T10:40:00+00:00", "2026-11-23T09:00:00+00:00"],
        ),
        // Day of the month or of the week, where both are said.
        (
            "0 0 13 * FRI",
            "",
            "2026-11-10T00:00:00Z",
            &["2026-11-13T00:00:00+00:00", "2026-11-20T00:00:00+00:00"],
        ),
        (
            "0 0 L * *",
            "",
            "2027-01-15T00:00:00Z",
            &["2027-01-31T00:00:00+00:00", "2027-02-28T00:00:00+00:00"],
        ),
        ("0 0 * * 1#2", "", "2026-11-23T00:00:00Z", &["2026-12-14T00:00:00+00:00"]),
        ("0 0 * * 7", "", "2026-11-23T00:00:00Z", &["2026-11-29T00:00:00+00:00"]),
        ("@daily", "", "2026-11-23T11:00:00Z", &["2026-11-24T00:00:00+00:00"]),
        ("@Midnight", "", "2026-11-23T11:00:00Z", &["2026-11-24T00:00:00+00:00"]),
        ("@hourly", "", "2026-11-23T11:00:00Z", &["2026-11-23T12:00:00+00:00"]),
        ("@weekly", "", "2026-11-23T11:00:00Z", &["2026-11-29T00:00:00+00:00"]),
        ("@monthly", "", "2026-11-23T11:00:00Z", &["2026-12-01T00:00:00+00:00"]),
        ("@yearly", "", "2026-11-23T11:00:00Z", &["2027-01-01T00:00:00+00:00"]),
        // Leap days, across a century that has none.
        (
            "0 0 29 2 *",
            "",
            "2026-11-23T00:00:00Z",
            &["2028-02-29T00:00:00+00:00", "2032-02-29T00:00:00+00:00"],
        ),
        ("0 0 29 2 *", "", "2096-03-01T00:00:00Z", &["2104-02-29T00:00:00+00:00"]),
        ("0 0 29 FEB *", "", "2028-02-28T00:00:00Z", &["2028-02-29T00:00:00+00:00"]),
        // A zone with a quarter of an hour, and its own day.
        ("0 0 * * *", "Asia/Kathmandu", "2026-11-23T18:00:00Z", &["2026-11-24T00:00:00+05:45"]),
        (
            "every 15m",
            "",
            "2026-11-23T11:07:30.001Z",
            &["2026-11-23T11:15:00+00:00", "2026-11-23T11:30:00+00:00"],
        ),
        ("EVERY  1h30m ", "", "2026-11-23T11:00:00Z", &["2026-11-23T12:00:00+00:00"]),
        ("every 1500", "", "2026-11-23T11:00:00Z", &["2026-11-23T11:00:01+00:00"]),
    ]);
}

/// The clock is put forward: from 02:00 to 03:00.
#[test]
fn spring_forward() {
    check(&[
        // A time that is left out comes right after the gap, once; the day after as always.
        (
            "30 2 * * *",
            "Europe/Berlin",
            "2027-03-27T12:00:00Z",
            &["2027-03-28T03:00:00+02:00", "2027-03-29T02:30:00+02:00"],
        ),
        (
            "30 2 * * *",
            "America/New_York",
            "2027-03-13T12:00:00Z",
            &["2027-03-14T03:00:00-04:00", "2027-03-15T02:30:00-04:00"],
        ),
        // Others are not moved.
        (
            "30 1 * * *",
            "Europe/Berlin",
            "2027-03-27T12:00:00Z",
            &["2027-03-28T01:30:00+01:00", "2027-03-29T01:30:00+02:00"],
        ),
        (
            "0 3 * * *",
            "Europe/Berlin",
            "2027-03-27T12:00:00Z",
            &["2027-03-28T03:00:00+02:00", "2027-03-29T03:00:00+02:00"],
        ),
        // What comes again and again goes on without a gap in time.
        (
            "*/30 * * * *",
            "Europe/Berlin",
            "2027-03-28T00:00:00Z",
            &[
                "2027-03-28T01:30:00+01:00",
                "2027-03-28T03:00:00+02:00",
                "2027-03-28T03:30:00+02:00",
            ],
        ),
        (
            "*/30 2 * * *",
            "America/New_York",
            "2027-03-13T12:00:00Z",
            &["2027-03-15T02:00:00-04:00", "2027-03-15T02:30:00-04:00"],
        ),
        // Only on the day of the change: it comes all the same.
        ("30 2 28 3 *", "Europe/Berlin", "2027-03-01T00:00:00Z", &["2027-03-28T03:00:00+02:00"]),
    ]);
}

/// The clock is put back: 02:00 to 03:00 in Berlin, 01:00 to 02:00 in New York, come twice.
#[test]
fn fall_back() {
    check(&[
        (
            "30 2 * * *",
            "Europe/Berlin",
            "2026-10-24T12:00:00Z",
            &["2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"],
        ),
        (
            "30 1 * * *",
            "America/New_York",
            "2026-10-31T12:00:00Z",
            &["2026-11-01T01:30:00-04:00", "2026-11-02T01:30:00-05:00"],
        ),
        // From the second time on it is over for that day.
        ("30 2 * * *", "Europe/Berlin", "2026-10-25T01:15:00Z", &["2026-10-26T02:30:00+01:00"]),
        ("0 3 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", &["2026-10-25T03:00:00+01:00"]),
        // What comes again and again goes on, both times.
        (
            "*/30 * * * *",
            "Europe/Berlin",
            "2026-10-25T00:00:00Z",
            &[
                "2026-10-25T02:30:00+02:00",
                "2026-10-25T02:00:00+01:00",
                "2026-10-25T02:30:00+01:00",
                "2026-10-25T03:00:00+01:00",
            ],
        ),
        (
            "15,45 1 * * *",
            "America/New_York",
            "2026-11-01T05:00:00Z",
            &[
                "2026-11-01T01:15:00-04:00",
                "2026-11-01T01:45:00-04:00",
                "2026-11-01T01:15:00-05:00",
                "2026-11-01T01:45:00-05:00",
                "2026-11-02T01:15:00-05:00",
            ],
        ),
    ]);
}

/// Goal: no moment is left out or comes twice, whatever the zone. Method: each moment of the days
/// around a change is asked for what comes next, and that is the next of all.
#[test]
fn every_start_finds_the_next_one() {
    for (zone, change) in [
        ("Europe/Berlin", "2027-03-28T01:00:00Z"),
        ("Europe/Berlin", "2026-10-25T01:00:00Z"),
        ("America/New_York", "2027-03-14T07:00:00Z"),
        ("America/New_York", "2026-11-01T06:00:00Z"),
        // Half an hour.
        ("Australia/Lord_Howe", "2026-10-03T15:30:00Z"),
        ("Australia/Lord_Howe", "2027-04-03T15:00:00Z"),
    ] {
        let (begin, end) = (at(change) - 5 * 3_600_000, at(change) + 5 * 3_600_000);
        for expr in ["*/20 * * * *", "0,30 1-3 * * *", "30 2 * * *", "15 1 * * *", "0 3 * * *"] {
            let moments = moments(expr, Some(zone), "2026-01-01T00:00:00Z");
            let mut all = vec![moments.next(begin).unwrap()];
            while *all.last().unwrap() < end {
                all.push(moments.next(*all.last().unwrap()).unwrap());
            }
            assert!(all.is_sorted_by(|a, b| a < b), "{expr} {zone}");
            for after in (begin..end).step_by(300_000) {
                let wanted = all.iter().find(|one| **one > after).unwrap();
                let found = moments.next(after).unwrap();
                assert_eq!(found, *wanted, "{expr} {zone} after {}", moments.shown(after));
            }
        }
    }
}

#[test]
fn what_is_refused() {
    let long = format!("0 0 {} * *", "1,".repeat(200) + "1");
    let rows: &[(&str, Option<&str>, &str)] = &[
        ("", None, "must not be empty"),
        ("   ", None, "must not be empty"),
        (&long, None, "is longer than 256 bytes"),
        ("0 0 31 2 *", None, "fits no moment within 50 years"),
        ("0 0 30 FEB *", None, "fits no moment within 50 years"),
        ("* * * 31 4,6 *", Some("Europe/Berlin"), "fits no moment within 50 years"),
        ("0 0 * *", None, "must have 5 fields"),
        ("* * * * * * *", None, "must have 5 fields"),
        ("nightly", None, "must have 5 fields"),
        ("60 * * * *", None, "has the minute '60', which must be 0 to 59"),
        ("* 24 * * *", None, "has the hour '24', which must be 0 to 23"),
        ("60 * * * * *", None, "has the second '60', which must be 0 to 59"),
        ("0 0 0 * *", None, "has the day of the month '0', which must be 1 to 31"),
        ("0 0 1 13 *", None, "has the month '13', which must be 1 to 12"),
        ("0 0 * * 8", None, "has the day of the week '8', which must be 0 to 7"),
        ("a * * * *", None, "has the minute 'a'"),
        ("*/0 * * * *", None, "has the minute '*/0'"),
        ("5-1 * * * *", None, "has the minute '5-1'"),
        // The library would look for these without end.
        (", * * * *", None, "has the minute ','"),
        ("1,,2 * * * *", None, "has the minute '1,,2'"),
        ("* * * , *", None, "has the month ','"),
        ("0 0 * * +", None, "has the day of the week '+'"),
        ("0 0 1 * +MON", None, "has the day of the week '+MON'"),
        ("@reboot", None, "must be one of @yearly"),
        ("0 0 @daily * *", None, "has the day of the month '@daily'"),
        ("é * * * *", None, "must be plain text"),
        ("0\t0 * * *", None, "must be plain text"),
        ("0 0 * * *\0", None, "must be plain text"),
        ("0 0 * * *", Some("Mars/Base"), "is no zone of the time zone database"),
        ("0 0 * * *", Some(""), "is no zone"),
        ("0 0 * * *", Some("+02:00"), "is no zone"),
        ("0 0 * * *", Some("Etc/Unknown"), "is no zone"),
        ("0 0 * * *", Some("../etc/passwd"), "is no zone"),
        ("every 15m", Some("UTC"), "has no use with every"),
        ("every 999ms", None, "must not come more often than every second"),
        ("every 0", None, "must not come more often"),
        ("every 366d", None, "has a length of time that"),
        ("every 15 m", None, "has a length of time that"),
        ("every", None, "must have 5 fields"),
        ("every soon", None, "has a length of time that"),
    ];
    for (expr, zone, wanted) in rows {
        let found = Moments::parse(expr.as_bytes(), zone.map(str::as_bytes), 1_795_430_000_000);
        let error = found.map(|_| ()).unwrap_err().to_string();
        assert!(error.starts_with(wanted), "{expr:?}: {error}");
    }
}

/// Whatever is asked for, and whatever Redis's clock shows: an answer, and soon.
#[test]
fn hostile_ones_end() {
    for expr in ["* * * * * *", "0 0 29 2 *", "0 0 29 2 1#5", "59 59 23 31W 12 *", "* * 2 29 2 *"] {
        for now in [0, 1, 1_795_430_000_000, 253_402_300_799_999, DUE_LIMIT_MS, u64::MAX / 2] {
            if let Ok(moments) = Moments::parse(expr.as_bytes(), Some(b"Pacific/Apia"), now) {
                assert!(moments.next(now).is_none_or(|next| next > now), "{expr} {now}");
                assert_eq!(moments.next(u64::MAX), None, "{expr}");
            }
        }
    }
}

#[test]
fn names_of_zones_are_theirs() {
    let zone = |name: &str| {
        let moments = Moments::parse(b"@daily", Some(name.as_bytes()), 1).unwrap();
        moments.zone().map(str::to_owned)
    };
    assert_eq!(zone("europe/berlin").unwrap(), "Europe/Berlin");
    assert_eq!(zone("UTC").unwrap(), "UTC");
    assert_eq!(moments("every 1s", None, "2026-01-01T00:00:00Z").zone(), None);
}

/// Each row: the expression, when it was due, CATCHUP, now; what is offered, missed, and next.
#[test]
fn plans() {
    let t = at("2026-11-23T12:00:00Z");
    let minutes = |n: u64| t + n * 60_000;
    let rows: &[(&str, u64, u64, u64, &[u64], u64, u64)] = &[
        ("* * * * *", t, 1, t, &[t], 0, minutes(1)),
        ("* * * * *", t, 1, t + 5, &[t], 0, minutes(1)),
        ("* * * * *", t, 0, t + GRACE_MS, &[t], 0, minutes(1)),
        // Missed.
        ("* * * * *", t, 0, t + GRACE_MS + 1, &[], 1, minutes(1)),
        ("* * * * *", t, 1, t + GRACE_MS + 1, &[t], 0, minutes(1)),
        ("* * * * *", t, 1, minutes(10) + 30_000, &[t], 10, minutes(11)),
        ("* * * * *", t, 3, minutes(10) + 30_000, &[t, minutes(1), minutes(2)], 8, minutes(11)),
        // The last one is not missed yet.
        ("* * * * *", t, 1, minutes(3), &[t, minutes(3)], 2, minutes(4)),
        // Nobody came for a few seconds: none is left out.
        ("* * * * * *", t, 0, t + 2_500, &[t, t + 1_000, t + 2_000], 0, t + 3_000),
        // A week: what was missed is not counted to its end.
        ("0 * * * * *", t, 0, t + 7 * DAY_MS + 30_000, &[], MISSED_MAX, t + 7 * DAY_MS + 60_000),
        ("every 1h", t, 1, t + 7 * DAY_MS, &[t, t + 7 * DAY_MS], 167, t + 7 * DAY_MS + 3_600_000),
        // Not due.
        ("* * * * *", minutes(1), 1, t, &[], 0, minutes(1)),
    ];
    for (expr, due, catchup, now, occurrences, missed, next) in rows {
        let plan = moments(expr, None, "2026-11-23T00:00:00Z").plan(*due, *catchup, *now);
        let missed = (*missed).min(MISSED_MAX);
        let wanted = Plan { occurrences: occurrences.to_vec(), missed, next: Some(*next) };
        assert_eq!(plan, wanted, "{expr} {due} {catchup} {now}");
    }
    // Seconds for a week: bounded too.
    let seconds = moments("* * * * * *", None, "2026-11-23T00:00:00Z");
    let plan = seconds.plan(t, CATCHUP_MAX, t + 7 * DAY_MS);
    assert_eq!(plan.missed, MISSED_MAX);
    assert_eq!(plan.occurrences.len() as u64, CATCHUP_MAX + GRACE_MS / 1_000 + 1);
    assert_eq!(plan.next, Some(t + 7 * DAY_MS + 1_000));
    assert!(plan.occurrences.is_sorted_by(|a, b| a < b));
}

#[test]
fn clocks_that_step() {
    let minutes = moments("* * * * *", None, "2026-11-23T00:00:00Z");
    let now = at("2026-11-23T12:00:30Z");
    for (last, next) in [
        (now - 30_000, "2026-11-23T12:01:00+00:00"),
        // An hour back: nothing that was offered is offered again.
        (at("2026-11-23T13:00:00Z"), "2026-11-23T13:01:00+00:00"),
        // A day and more: it was the clock before that was wrong.
        (now + STEP_MS, "2026-11-24T12:01:00+00:00"),
        (now + STEP_MS + 1, "2026-11-23T12:01:00+00:00"),
        (0, "2026-11-23T12:01:00+00:00"),
        (u64::MAX, "2026-11-23T12:01:00+00:00"),
    ] {
        assert_eq!(minutes.shown(minutes.resumed(last, now).unwrap()), next, "{last}");
    }
}

#[test]
fn specifications() {
    let spec = Spec {
        expr: "0 3 * * *".into(),
        tz: Some("Europe/Berlin".into()),
        overlap: Overlap::Skip,
        catchup: 1,
    };
    let text = r#"{"expr":"0 3 * * *","tz":"Europe/Berlin","overlap":"skip","catchup":1}"#;
    assert_eq!(spec.text(), text);
    let now = at("2026-11-23T12:00:00Z");
    assert_eq!(Spec::read(text.as_bytes(), now).unwrap().0, spec);
    for damaged in [
        "",
        "{}",
        "null",
        r#"{"expr":"0 0 31 2 *","tz":"UTC","overlap":"skip","catchup":1}"#,
        r#"{"expr":", * * * *","tz":"UTC","overlap":"skip","catchup":1}"#,
        r#"{"expr":"@daily","tz":"Mars","overlap":"skip","catchup":1}"#,
        r#"{"expr":"@daily","tz":"UTC","overlap":"later","catchup":1}"#,
        r#"{"expr":"@daily","tz":"UTC","overlap":"skip","catchup":-1}"#,
    ] {
        assert!(Spec::read(damaged.as_bytes(), now).is_none(), "{damaged}");
    }
}
