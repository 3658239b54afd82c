//! What people do with the console.

use crate::Place;
use crate::driver::Driver;
use crate::support::broker::Broker;
use crate::support::redis;
use crate::support::wait::eventually;

const ENTER: &str = "\u{e007}";
const TAB: &str = "\u{e004}";
const ESCAPE: &str = "\u{e00c}";

/// Offer, watch it count down, reschedule, fire, gone.
#[test]
fn a_message_from_offer_to_delivery() {
    let place = Place::new();
    let driver = &place.driver;
    place.go("/ui/queues/orders");
    driver.shows("there is nothing of this queue");
    driver.click_on("summary", "Offer a message\u{2026}");
    driver.type_into("[name=delay]", "1h");
    driver.type_into("[name=payload]", "{\"order\": 42}");
    driver.type_into("[name=name]", "order:42");
    driver.click_on("button", "Offer");
    driver.shows("Stored a message.");
    driver.shows("order:42");
    // It counts down without being loaded again.
    let left = || driver.script("return document.querySelector('#messages time').textContent");
    let first = left();
    assert!(first.as_str().unwrap().starts_with("in 59 min "), "{first}");
    eventually(left, |now| *now != first && now.as_str().unwrap().starts_with("in 59 min "));
    driver.click("#messages td.code a");
    driver.shows("\"order\": 42");
    driver.shows("DQ.RESCHEDULE orders");
    driver.click_on("button", "in 10 min");
    driver.shows("The message has another due time.");
    driver.shows("in 9 min");
    driver.click_on("button", "Fire");
    driver.shows("Made due 1 message.");
    // The page hears that it is gone.
    driver.shows("No message is pending.");
    assert_eq!(place.call(&["DQ.SIZE", "orders"]), "0");
    // Somebody else's message comes by itself.
    place.go("/ui/");
    driver.shows("orders");
    place.call(&["DQ.OFFER", "others", "1h", "p"]);
    driver.shows("others");
    driver.is_content();
}

#[test]
fn cancel_what_is_selected() {
    let place = Place::new();
    let driver = &place.driver;
    for n in 0..4 {
        place.call(&["DQ.OFFER", "q", &format!("{}m", 10 + n), &format!("payload-{n}")]);
    }
    place.go("/ui/queues/q");
    driver.click("tbody tr:nth-child(2) input");
    driver.click("tbody tr:nth-child(3) input");
    driver.click_on("button", "Cancel selected");
    assert_eq!(driver.accept(), "Cancel what is selected?");
    driver.shows("Cancelled 2 messages.");
    driver.shows_no("payload-1");
    driver.shows("payload-3");
    assert_eq!(place.size("q"), 2);
    driver.is_content();
}

#[test]
fn clear_asks_for_the_name() {
    let place = Place::new();
    let driver = &place.driver;
    place.call(&["DQ.OFFER", "orders", "1h", "p"]);
    for (typed, says) in [("order", "nothing was dropped"), ("orders", "Dropped 1 message.")] {
        place.go("/ui/queues/orders");
        driver.click_on("summary", "Clear\u{2026}");
        driver.type_into("[name=confirm]", typed);
        assert_eq!(place.size("orders"), 1);
        driver.click_on("button", "Drop all pending messages");
        driver.shows(says);
    }
    assert_eq!(place.size("orders"), 0);
}

/// 10,000 messages: counted, then cancelled.
#[test]
fn a_dry_run_and_then_all() {
    let place = Place::new();
    let driver = &place.driver;
    let mut client = place.broker.client();
    for batch in 0..20 {
        let mut words = vec!["DQ.MOFFER".to_owned(), "q".to_owned()];
        (0..500).for_each(|n| words.extend(["1h".to_owned(), format!("wrong {batch} {n}")]));
        client.call(&words).unwrap();
    }
    client.call(&["DQ.OFFER", "q", "1h", "right"]).unwrap();
    place.go("/ui/queues/q");
    driver.click_on("a", "Find");
    driver.type_into("[name=match]", "wrong");
    driver.click_on("button", "Find");
    driver.shows("DQ.CANCEL q MATCH *wrong*");
    driver.click_on("button", "Cancel all that match\u{2026}");
    driver.shows("10,000 messages would be cancelled.");
    assert_eq!(place.size("q"), 10_001);
    driver.click_on("button", "Cancel all that match: 10,000");
    driver.shows("10,000 messages are cancelled.");
    assert_eq!(place.size("q"), 1);
    driver.is_content();
}

#[test]
fn pause_all() {
    let place = Place::new();
    let driver = &place.driver;
    place.call(&["DQ.OFFER", "q", "1h", "p"]);
    place.go("/ui/");
    driver.click_on("summary", "Pause all\u{2026}");
    driver.click_on("button", "Pause all queues");
    driver.shows("All queues are paused");
    driver.click_on("button", "Resume all");
    driver.shows_no("All queues are paused");
    driver.is_content();
}

/// A page says when it is old, and goes on by itself.
#[test]
fn the_broker_goes_and_comes_back() {
    let url = redis::shared().url(redis::shared().fresh_database());
    let broker = Broker::spawn(&url, &[]);
    let address = broker.http_address();
    let driver = Driver::new();
    broker.client().call(&["DQ.OFFER", "before", "1h", "p"]).unwrap();
    driver.go(&format!("http://{address}/ui/"));
    driver.shows("before");
    drop(broker);
    driver.shows("What is shown is old");
    let broker = Broker::with_args(&["--redis", &url, "--http", &address], &[]);
    broker.client().call(&["DQ.OFFER", "after", "1h", "p"]).unwrap();
    driver.shows("after");
    driver.shows_no("What is shown is old");
}

/// Forms and links do all that scripts do.
#[test]
fn without_scripts() {
    let place = Place::with(Driver::without_scripts());
    let driver = &place.driver;
    place.go("/ui/queues/q");
    driver.click_on("summary", "Offer a message\u{2026}");
    driver.type_into("[name=delay]", "1h");
    driver.type_into("[name=payload]", "<b>text</b>");
    driver.click_on("button", "Offer");
    driver.shows("Stored a message.");
    driver.shows("<b>text</b>");
    driver.click("#messages td.code a");
    driver.click_on("button", "in 1 h");
    driver.shows("The message has another due time.");
    place.go("/ui/queues/q/find?match=text");
    driver.click_on("button", "Cancel all that match\u{2026}");
    driver.shows("1 messages would be cancelled.");
    driver.click_on("button", "Cancel all that match: 1");
    driver.shows("1 messages are cancelled.");
    assert_eq!(place.size("q"), 0);
}

/// Nothing needs a mouse.
#[test]
fn by_keyboard() {
    let place = Place::new();
    let driver = &place.driver;
    place.call(&["DQ.OFFER", "q", "1h", "p"]);
    place.go("/ui/");
    driver.press(TAB);
    let focus =
        || driver.script("return document.activeElement.innerText").as_str().unwrap().to_owned();
    assert_eq!(focus(), "Skip to the content");
    let until = |wanted: &str| {
        for _ in 0..60 {
            if focus().trim() == wanted {
                return;
            }
            driver.press(TAB);
        }
        panic!("{wanted} is not reached");
    };
    until("q");
    driver.press(ENTER);
    driver.shows("Pending messages");
    until("Pause\u{2026}");
    // A sheet opens, and Escape closes it.
    driver.press(ENTER);
    driver.shows("Pause the queue");
    driver.press(ESCAPE);
    driver.shows_no("Pause the queue");
    assert_eq!(focus(), "Pause\u{2026}");
    driver.press(ENTER);
    driver.press(TAB);
    driver.press("10m");
    driver.press(ENTER);
    driver.shows("paused, goes on in");
    driver.is_content();
}
