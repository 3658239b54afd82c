//! CLIENT: what connections say about themselves and see of one another.

use crate::peer::{Peer, check, shared};

#[test]
fn names_and_libraries() {
    check(&[
        ("*2\r\n$6\r\nCLIENT\r\n$2\r\nID\r\n", ":«int»\r\n"),
        ("client getname\r\n", "«$-1|_»\r\n"),
        ("*3\r\n$6\r\nCLIENT\r\n$7\r\nSETNAME\r\n$2\r\nme\r\n", "+OK\r\n"),
        ("CLIENT GETNAME\r\n", "$2\r\nme\r\n"),
        ("client setinfo LIB-NAME redis-py(custom_v1.0)\r\n", "+OK\r\n"),
        ("CLIENT SETINFO lib-ver 8.1.0\r\n", "+OK\r\n"),
        (
            "CLIENT INFO\r\n",
            "$«int»\r\nid=«int» addr=127.0.0.1:«int» laddr=127.0.0.1:«int» name=me age=«int» \
             idle=«int» flags=N db=0 sub=0 psub=0 ssub=0 multi=-1 cmd=client user=default redir=-1 \
             resp=«2|3» lib-name=redis-py(custom_v1.0) lib-ver=8.1.0\n\r\n",
        ),
        ("CLIENT SETNAME ''\r\n", "+OK\r\n"),
        ("CLIENT GETNAME\r\n", "«$-1|_»\r\n"),
        (
            "CLIENT SETNAME 'a b'\r\n",
            "-ERR Client names cannot contain spaces, newlines or special characters.\r\n",
        ),
        ("CLIENT SETNAME\r\n", "-ERR wrong number of arguments for 'client|setname' command\r\n"),
        ("CLIENT SETINFO WHAT x\r\n", "-ERR Unrecognized option 'WHAT'\r\n"),
        ("CLIENT ID x\r\n", "-ERR wrong number of arguments for 'client|id' command\r\n"),
        ("CLIENT NO-EVICT on\r\n", "+OK\r\n"),
        ("client no-touch OFF\r\n", "+OK\r\n"),
        ("CLIENT NO-TOUCH maybe\r\n", "-ERR syntax error\r\n"),
        ("CLIENT\r\n", "-ERR wrong number of arguments for 'client' command\r\n"),
    ]);
}

/// What rueidis sends when it connects: it ends the connection on an error. Nothing is tracked
/// before CLIENT CACHING YES, which is refused, so OK promises nothing.
#[test]
fn tracking_that_waits_to_be_asked() {
    check(&[("CLIENT TRACKING ON OPTIN\r\n", "+OK\r\n"), ("client tracking off\r\n", "+OK\r\n")]);
}

/// OK would promise pushes.
#[test]
fn what_must_be_an_error() {
    check(&[
        (
            "CLIENT MAINT_NOTIFICATIONS ON moving-endpoint-type internal-ip\r\n",
            "-ERR unknown subcommand 'MAINT_NOTIFICATIONS'. Try CLIENT HELP.\r\n",
        ),
        (
            "client maint_notifications on\r\n",
            "-ERR unknown subcommand 'maint_notifications'. «text»\r\n",
        ),
        (
            "CLIENT TRACKING on\r\n",
            "-ERR CLIENT TRACKING takes ON OPTIN or OFF here: nothing is pushed when messages \
             change\r\n",
        ),
        ("CLIENT CACHING yes\r\n", "-ERR unknown subcommand 'CACHING'. Try CLIENT HELP.\r\n"),
        ("CLIENT CAPA redirect\r\n", "-ERR unknown subcommand 'CAPA'. Try CLIENT HELP.\r\n"),
    ]);
}

#[test]
fn replies_left_out() {
    check(&[
        ("CLIENT REPLY ON\r\n", "+OK\r\n"),
        ("CLIENT REPLY SKIP\r\nDQ.OFFER «q» 1h a\r\nPING\r\n", "+PONG\r\n"),
        (
            "CLIENT REPLY OFF\r\nDQ.OFFER «q» 1h b\r\nDQ.SIZE «q»\r\nNONSENSE\r\n\
             DQ.MOFFER «q» 1h c 1h d\r\n\
             DQ.OFFER «q» -1 x\r\nclient reply on\r\n",
            "+OK\r\n",
        ),
        ("DQ.SIZE «q»\r\n", ":4\r\n"),
        ("CLIENT REPLY maybe\r\n", "-ERR syntax error\r\n"),
    ]);
}

fn id(peer: &mut Peer) -> String {
    peer.sends("CLIENT ID\r\n");
    peer.gets(":«int»\r\n").remove(0)
}

#[test]
fn listed() {
    let (mut one, mut two) = (shared().peer(), shared().peer3());
    let (first, second) = (id(&mut one), id(&mut two));
    one.sends("CLIENT LIST\r\n");
    one.gets(&format!("$«int»\r\n«lines»id={first} addr=«lines»id={second} addr=«lines»\n\r\n"));
    one.sends(format!(
        "CLIENT LIST ID {second}\r\nclient list type pubsub\r\nCLIENT LIST ID x\r\n"
    ));
    one.gets(&format!(
        "$«int»\r\nid={second} addr=«text» resp=3 lib-name= lib-ver=\n\r\n$0\r\n\r\n\
         -ERR Invalid client ID 'x'\r\n"
    ));
}

#[test]
fn killed() {
    let (mut one, mut two) = (shared().peer(), shared().peer());
    let (first, second) = (id(&mut one), id(&mut two));
    one.sends(format!("CLIENT KILL ID {second}\r\n"));
    one.gets(":1\r\n");
    assert!(two.gets_until_end().is_empty());
    one.sends("CLIENT KILL 127.0.0.1:1\r\nCLIENT KILL\r\nCLIENT KILL ID 5 WHAT\r\n");
    one.gets(
        "-ERR No such client\r\n-ERR wrong number of arguments for 'client|kill' command\r\n-ERR \
         syntax error\r\n",
    );
    // Oneself is spared, unless one insists; then the reply comes first.
    one.sends(format!("CLIENT KILL ID {first}\r\n"));
    one.gets(":0\r\n");
    one.sends(format!("CLIENT KILL ID {first} SKIPME no\r\nPING\r\n"));
    one.gets_end(":1\r\n");
}
