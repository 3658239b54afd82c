//! How pages look: each in light and dark, on a desk and on a phone, with names and payloads of
//! strangers; nothing that the browser complains of, nothing serious that axe finds.

use crate::Place;
use crate::support::wait::eventually;
use delay_broker::http::console::pages::PAGES;
use std::path::Path;

/// What stands in target/browser.
fn keep(name: &str, picture: &[u8]) {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/browser");
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join(name), picture).unwrap();
}

/// Some of everything; times that do not depend on the day.
fn fill(place: &Place) {
    let mut client = place.broker.client();
    let mut call = |words: &[&str]| client.call(words).unwrap();
    for n in 0..40 {
        let due = format!("{}s", 95 + n * 83);
        let payload = format!("{{\"order\":{n},\"step\":\"cancel-unpaid\"}}");
        call(&["DQ.OFFER", "orders.timeout", &due, &payload, "NAME", &format!("order:{n}")]);
    }
    for n in 0..240_u64 {
        let due = format!("{}s", 60 + n * n * 37 % 3_400);
        call(&["DQ.OFFER", "mail.reminder", &due, &format!("reminder {n}")]);
    }
    call(&["DQ.OFFER", "invoice.dunning", "4h", "{\"invoice\":7}"]);
    call(&["DQ.PAUSE", "webhook.retry", "2h"]);
    call(&["DQ.OFFER", "webhook.retry", "0", "{\"try\":3}"]);
    call(&["DQ.CRON", "orders.timeout", "SET", "nightly", "0 3 * * *", "clean up"]);
    call(&["DQ.SETUP", "jobs", "destination", "take", "limit", "1"]);
    call(&["DQ.OFFER", "jobs", "0", "{\"job\":1}"]);
    call(&["DQ.OFFER", "jobs", "0", "{\"job\":2}"]);
    let taken = eventually(|| format!("{:?}", call(&["DQ.TAKE", "jobs"])), |t| t.contains(':'));
    assert!(taken.contains("receipt"), "{taken}");
}

const HOSTILE: &str =
    "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>\u{202e}a/b?c=d#e..";

fn hostile(place: &Place) {
    let long = "x".repeat(300);
    let mut client = place.broker.client();
    for name in [HOSTILE, &long, "..", "%2e%2e"] {
        client.call(&["DQ.SETUP", name, "destination", "take"]).unwrap();
        let offer = ["DQ.OFFER", name, "1h", name, "NAME", name, "HEADER", name, name];
        client.call(&offer).unwrap();
    }
}

fn path(page: &str, queue: &str, message: &str) -> String {
    format!("/ui{}", page.replace("{queue}", queue).replace("{message}", message))
}

fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// What axe finds that is serious. Its file comes from npm; `make browser` fetches it.
fn axe(place: &Place) -> Vec<String> {
    let Ok(file) = std::env::var("AXE") else {
        assert!(std::env::var_os("CI").is_none(), "AXE names no axe.min.js; make browser does");
        return Vec::new();
    };
    place.driver.script(&std::fs::read_to_string(file).unwrap());
    let run = "axe.run().then(found => window.found = found.violations\
               .filter(one => ['serious', 'critical'].includes(one.impact))\
               .map(one => one.id + ': ' + one.nodes.map(node => node.html).join(' ')))";
    place.driver.script(&format!("window.found = null; {run}"));
    let found = || place.driver.script("return window.found");
    let found = eventually(found, |found| found.is_array());
    found.as_array().unwrap().iter().map(|one| one.as_str().unwrap().to_owned()).collect()
}

/// Each page of the table, and the ones beside it.
#[test]
fn every_page() {
    let place = Place::new();
    fill(&place);
    hostile(&place);
    let driver = &place.driver;
    let pages = PAGES.iter().filter(|page| !page.path.contains("{job}"));
    let mut paths: Vec<String> =
        pages.map(|page| path(page.path, "orders.timeout", "order:7")).collect();
    paths.extend(
        [
            "/ui/login",
            "/ui/nothing",
            "/ui/queues/jobs/taken",
            "/ui/queues/jobs",
            "/ui/queues/hex:2e2e",
            "/ui/queues/orders.timeout/find?match=order",
            "/ui/queues/orders.timeout?span=week",
        ]
        .map(str::to_owned),
    );
    for page in ["/queues/{queue}", "/queues/{queue}/messages/{message}", "/queues/{queue}/find"] {
        for name in [HOSTILE, &"x".repeat(300)] {
            paths.push(path(page, &encoded(name), &encoded(name)));
        }
    }
    let mut wrong = Vec::new();
    for (number, page) in paths.iter().enumerate() {
        for (width, height, dark) in [(1280, 900, false), (375, 800, true)] {
            driver.size(width, height);
            driver.dark(dark);
            driver.complaints();
            place.go(page);
            driver.shows("Delay Broker");
            let about = format!("{page} at {width}");
            let wide = driver.script("return document.documentElement.scrollWidth - innerWidth");
            if wide.as_i64() > Some(0) {
                wrong.push(format!("{about} is {wide} too wide"));
            }
            wrong.extend(axe(&place).into_iter().map(|found| format!("{about}: {found}")));
            let complaints = driver.complaints().into_iter();
            let missing = |text: &String| page == "/ui/nothing" && text.contains("404");
            let complaints = complaints.filter(|text| !missing(text));
            wrong.extend(complaints.map(|text| format!("{about}: {text}")));
            keep(&format!("{number:02}-{width}.png"), &driver.picture());
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The pictures of docs: PICTURES says their folder, else they are kept with the others.
#[test]
fn pictures() {
    let place = Place::new();
    fill(&place);
    let driver = &place.driver;
    let rows = [
        ("overview", "/ui/", false),
        ("overview-dark", "/ui/", true),
        ("queue", "/ui/queues/orders.timeout", false),
    ];
    for (name, page, dark) in rows {
        driver.size(1280, 860);
        driver.dark(dark);
        place.go(page);
        driver.shows("What falls due");
        let picture = driver.picture();
        assert!(picture.len() < 150_000, "{name} has {} bytes", picture.len());
        match std::env::var_os("PICTURES") {
            Some(dir) => {
                std::fs::write(Path::new(&dir).join(format!("{name}.png")), picture).unwrap()
            }
            None => keep(&format!("{name}.png"), &picture),
        }
    }
}
