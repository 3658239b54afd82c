//! look
