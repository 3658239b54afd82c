//! change
