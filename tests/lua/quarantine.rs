//! quarantine
