//! `AUTH` where no password is set; `gate.rs` has the rest.

use crate::peer::check;

#[test]
fn auth_without_a_password() {
    check(&[
        (
            "AUTH secret\r\n",
            "-ERR AUTH <password> called without any password configured for the default user. \
             Are you sure your configuration is correct?\r\n",
        ),
        ("*3\r\n$4\r\nAUTH\r\n$7\r\ndefault\r\n$3\r\nany\r\n", "+OK\r\n"),
        (
            "auth somebody any\r\n",
            "-WRONGPASS invalid username-password pair or user is disabled.\r\n",
        ),
        ("AUTH\r\n", "-ERR wrong number of arguments for 'auth' command\r\n"),
        ("AUTH a b c\r\n", "-ERR wrong number of arguments for 'auth' command\r\n"),
    ]);
}
