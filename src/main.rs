//! The program `delay-broker`; all of it is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    delay_broker::daemon::cli::main()
}
