//! `CONFIG GET`: the settings in effect.

use crate::peer::check;

#[test]
fn config() {
    check(&[
        (
            "*3\r\n$6\r\nCONFIG\r\n$3\r\nGET\r\n$4\r\nsave\r\n",
            "«*2|%1»\r\n$4\r\nsave\r\n$0\r\n\r\n",
        ),
        ("config get APPENDONLY\r\n", "«*2|%1»\r\n$10\r\nappendonly\r\n$0\r\n\r\n"),
        (
            "CONFIG GET databases timeout\r\n",
            "«*4|%2»\r\n$7\r\ntimeout\r\n$1\r\n0\r\n$9\r\ndatabases\r\n$1\r\n1\r\n",
        ),
        ("CONFIG GET nothing\r\n", "«*0|%0»\r\n"),
        (
            "CONFIG GET limits.payload_bytes_max\r\n",
            "«*2|%1»\r\n$24\r\nlimits.payload_bytes_max\r\n$8\r\n16777216\r\n",
        ),
        ("CONFIG GET\r\n", "-ERR wrong number of arguments for 'config|get' command\r\n"),
        (
            "CONFIG SET save ''\r\n",
            "-ERR CONFIG 'SET' is not supported: settings are read at start and at SIGHUP\r\n",
        ),
        ("CONFIG WHAT\r\n", "-ERR unknown subcommand 'WHAT'. Try CONFIG HELP.\r\n"),
    ]);
}
