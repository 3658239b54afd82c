//! State that the connections of all clients share: the list of clients, the memory of their
//! buffers, the order of their turns, passwords under verification, and the wrong ones of each
//! address. Knows no socket and no command.

pub mod fairness;
pub mod guesses;
pub mod memory;
pub mod passwords;
pub mod registry;
