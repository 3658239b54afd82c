//! The limits of a request. A length is checked when it is announced, before anything is waited
//! for.

use super::request::{ProtocolError, Range};

/// From the settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestLimits {
    pub args_max: usize,
    pub arg_bytes_max: usize,
    pub request_bytes_max: usize,
    pub inline_bytes_max: usize,
}

impl RequestLimits {
    /// The requests that a client may send before it has said the password, as in Redis: they are
    /// large enough for HELLO.
    pub const UNAUTHENTICATED: Self = Self {
        args_max: 10,
        arg_bytes_max: 16 * 1024,
        request_bytes_max: 64 * 1024,
        inline_bytes_max: 16 * 1024,
    };

    /// The number of arguments that an array announces, if it is allowed.
    pub(super) fn check_count(&self, announced: i64) -> Result<usize, ProtocolError> {
        match usize::try_from(announced) {
            Ok(count) if count <= self.args_max => Ok(count),
            _ => Err(self.error(ProtocolError::TooManyArguments(self.args_max))),
        }
    }

    /// The length that an argument announces, if it is allowed. `begins`: the bytes of its request
    /// before it.
    pub(super) fn check_length(
        &self,
        announced: i64,
        begins: usize,
    ) -> Result<usize, ProtocolError> {
        let length = usize::try_from(announced).map_err(|_| ProtocolError::BulkLength)?;
        if length > self.arg_bytes_max {
            return Err(self.error(ProtocolError::ArgumentTooBig(self.arg_bytes_max)));
        }
        if begins + length + 2 > self.request_bytes_max {
            return Err(self.error(ProtocolError::RequestTooBig(self.request_bytes_max)));
        }
        Ok(length)
    }

    pub(super) fn check_inline_bytes(&self, bytes: usize) -> Result<(), ProtocolError> {
        match bytes <= self.inline_bytes_max {
            true => Ok(()),
            false => Err(self.error(ProtocolError::InlineTooBig(self.inline_bytes_max))),
        }
    }

    pub(super) fn check_inline_args(&self, args: &[Range]) -> Result<(), ProtocolError> {
        if args.len() > self.args_max {
            return Err(self.error(ProtocolError::TooManyArguments(self.args_max)));
        }
        if args.iter().any(|(start, end)| end - start > self.arg_bytes_max) {
            return Err(self.error(ProtocolError::ArgumentTooBig(self.arg_bytes_max)));
        }
        Ok(())
    }

    /// The error that names a setting, or Redis's own where the limit is not a setting.
    fn error(&self, names_setting: ProtocolError) -> ProtocolError {
        match names_setting {
            error if *self != Self::UNAUTHENTICATED => error,
            ProtocolError::TooManyArguments(_) => ProtocolError::UnauthenticatedArrayLength,
            _ => ProtocolError::UnauthenticatedBulkLength,
        }
    }
}
