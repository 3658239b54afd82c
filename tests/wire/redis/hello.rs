//! `HELLO`: the handshake, and the protocol of replies.

use crate::peer::{check, shared};

#[test]
fn hello() {
    for options in [
        "",
        " SETNAME me",
        " AUTH default any",
        " SETNAME me AUTH default any",
        " auth default any setname me",
    ] {
        let mut peer = shared().peer();
        peer.sends(format!("hello 3{options}\r\n"));
        peer.gets(
            "%7\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$5\r\n7.4.0\r\n$5\r\nproto\r\n\
             :3\r\n$2\r\nid\r\n:«int»\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\n\
             master\r\n$7\r\nmodules\r\n*0\r\n",
        );
        peer.sends("DQ.GET «q» n\r\n*2\r\n$5\r\nHELLO\r\n$1\r\n2\r\n");
        peer.gets(
            "_\r\n*14\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$5\r\n7.4.0\r\n$5\r\n\
             proto\r\n:2\r\n$2\r\nid\r\n:«int»\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n\
             $6\r\nmaster\r\n$7\r\nmodules\r\n*0\r\n",
        );
        // Without a version the one in use is shown.
        peer.sends("DQ.GET «q» n\r\nHELLO\r\nHELLO 3\r\nHELLO\r\n");
        peer.gets("$-1\r\n*14\r\n«lines»proto\r\n:2\r\n«lines»modules\r\n*0\r\n");
        peer.gets(
            "%7\r\n«lines»modules\r\n*0\r\n%7\r\n«lines»proto\r\n:3\r\n«lines»modules\r\n*0\r\n",
        );
    }
}

/// Replies are in the protocol of the moment in which they were asked for, also those of offers
/// that are not stored yet.
#[test]
fn the_protocol_changes_between_commands() {
    let mut peer = shared().peer();
    peer.sends(
        "DQ.OFFER «q» 1h a NAME n XX\r\nHELLO 3\r\nDQ.OFFER «q» 1h a NAME n XX\r\nRESET\r\n\
         DQ.OFFER «q» 1h a NAME n XX\r\n",
    );
    peer.gets("$-1\r\n%7\r\n«lines»modules\r\n*0\r\n_\r\n+RESET\r\n$-1\r\n");
}

#[test]
fn hello_refused() {
    check(&[
        ("HELLO 4\r\n", "-NOPROTO unsupported protocol version\r\n"),
        ("*2\r\n$5\r\nHELLO\r\n$1\r\n1\r\n", "-NOPROTO unsupported protocol version\r\n"),
        ("HELLO x\r\n", "-ERR Protocol version is not an integer or out of range\r\n"),
        ("HELLO 3 SETNAME\r\n", "-ERR Syntax error in HELLO option 'SETNAME'\r\n"),
        ("HELLO 3 AUTH default\r\n", "-ERR Syntax error in HELLO option 'AUTH'\r\n"),
        ("HELLO 2 WHAT\r\n", "-ERR Syntax error in HELLO option 'WHAT'\r\n"),
        (
            "HELLO 3 AUTH somebody any\r\n",
            "-WRONGPASS invalid username-password pair or user is disabled.\r\n",
        ),
        (
            "HELLO 3 SETNAME 'a b'\r\n",
            "-ERR Client names cannot contain spaces, newlines or special characters.\r\n",
        ),
        // Nothing of it was done: the protocol is as before.
        ("DQ.GET «q» n\r\n", "«$-1|_»\r\n"),
    ]);
}

/// What StackExchange.Redis sends in one write when it connects, by its source. It goes on without
/// the answers that are errors; the last one, its sign of life, it needs byte for byte.
#[test]
fn the_opening_of_stackexchange_redis() {
    let mut peer = shared().peer();
    peer.sends(
        "HELLO 3\r\nCLIENT SETNAME app\r\nCLIENT SETINFO lib-name SE.Redis\r\n\
         CLIENT SETINFO lib-ver 3.1.0\r\nCLIENT ID\r\nCONFIG GET timeout\r\n\
         CONFIG GET replica-read-only\r\nCONFIG GET databases\r\nSENTINEL MASTERS\r\n\
         INFO replication\r\nINFO server\r\nCLUSTER NODES\r\nGET __Booksleeve_TieBreak\r\n\
         *2\r\n$4\r\nECHO\r\n$16\r\n\0\r\n345678901234\0\r\n",
    );
    peer.gets(
        "%7\r\n«lines»modules\r\n*0\r\n+OK\r\n+OK\r\n+OK\r\n:«int»\r\n\
         %1\r\n$7\r\ntimeout\r\n$1\r\n0\r\n«lines»%1\r\n$9\r\ndatabases\r\n$1\r\n1\r\n\
         -ERR This instance is not a Sentinel\r\n$«int»\r\n# Replication\r\nrole:master\r\n\
         «lines»$«int»\r\n# Server\r\n«lines»-ERR This instance has cluster support disabled\r\n\
         -ERR unknown command 'GET', with args beginning with: '__Booksleeve_TieBreak' «text»\r\n\
         $16\r\n\0\r\n345678901234\0\r\n",
    );
}
