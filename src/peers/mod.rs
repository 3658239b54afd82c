//! What the connections of all clients share: who is connected, the memory of their buffers, whose
//! turn it is, and who guesses passwords. Knows no socket and no command.

pub mod fairness;
pub mod guesses;
pub mod memory;
pub mod registry;
