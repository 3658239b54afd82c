//! The program `delay-broker`; all of it is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().collect();
    match delay_broker::work::asked(&arguments) {
        true => delay_broker::work::main(arguments),
        false => delay_broker::daemon::cli::main(),
    }
}
