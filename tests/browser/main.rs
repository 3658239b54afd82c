//! The console in a real browser: what people do with it, with and without scripts, by keyboard, on
//! a phone, in the dark; and what axe finds.
//!
//! A target of its own, which `make browser` and CI run, since it needs Chromium. The pictures of
//! all pages are in `target/browser`; those of docs are made by `make pictures`.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

#[path = "../support/mod.rs"]
mod support;

mod driver;
mod looks;
mod use_it;

use driver::Driver;
use support::broker::Broker;
use support::redis;

/// A broker on an empty database, and a browser.
struct Place {
    broker: Broker,
    driver: Driver,
}

impl Place {
    fn new() -> Place {
        Place::with(Driver::new())
    }

    fn with(driver: Driver) -> Place {
        let url = redis::shared().url(redis::shared().fresh_database());
        Place { broker: Broker::spawn(&url, &[]), driver }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.broker.http_address())
    }

    fn go(&self, path: &str) {
        self.driver.go(&self.url(path));
    }

    fn call(&self, words: &[&str]) -> String {
        self.broker.client().call(words).unwrap().text()
    }

    fn size(&self, queue: &str) -> u64 {
        self.broker.client().call(&["DQ.SIZE", queue]).unwrap().number().unwrap()
    }
}
