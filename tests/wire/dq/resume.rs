//! `DQ.RESUME`: ends a pause, and delivers what became due meanwhile.

use crate::peer::shared;
use crate::support::wait::eventually;

#[test]
fn fired_and_resumed() {
    let mut peer = shared().peer();
    let mut backing = shared().backing();
    let queue = peer.queue.clone();
    let mut list = || backing.call(&["LRANGE", &queue, "0", "-1"]).unwrap().texts();
    peer.sends("DQ.OFFER «q» 1h a NAME n\r\nDQ.FIRE «q» n\r\n");
    peer.gets("$30\r\n«id»\r\n:1\r\n");
    assert_eq!(eventually(&mut list, |list| !list.is_empty()), ["a"]);
    peer.sends("DQ.PAUSE «q»\r\nDQ.OFFER «q» 0 b\r\nDQ.SIZE «q»\r\nDQ.RESUME «q»\r\n");
    peer.gets("+OK\r\n$30\r\n«id»\r\n:1\r\n+OK\r\n");
    assert_eq!(eventually(&mut list, |list| list.len() > 1), ["a", "b"]);
    // With a duration it ends by itself.
    peer.sends("DQ.PAUSE «q» 50\r\nDQ.OFFER «q» 0 c\r\n");
    peer.gets("+OK\r\n$30\r\n«id»\r\n");
    assert_eq!(eventually(&mut list, |list| list.len() > 2), ["a", "b", "c"]);
}
