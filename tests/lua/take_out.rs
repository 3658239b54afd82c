//! take_out
