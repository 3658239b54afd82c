//! every
