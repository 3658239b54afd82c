//! Acknowledged means stored, and delivered once, whoever is killed and when.

use crate::support::kills;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

#[test]
fn killed_again_and_again_under_load() {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let seed = now.subsec_nanos().into();
    eprintln!("seed {seed}");
    let account = kills::run(seed, Duration::from_secs(12));
    eprintln!("{account:?}");
    assert!(account.acknowledged > 100, "{account:?}");
    let broken = [account.lost, account.doubled, account.after_cancel, account.early];
    assert_eq!(broken, [0; 4], "{account:?}");
}
