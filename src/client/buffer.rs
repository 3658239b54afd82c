//! Bytes that come from a client or go to it. A buffer gives the memory of a large one back.

use bytes::{Buf, BytesMut};

/// A buffer that grew beyond this is given back when it is empty, because the memory of idle
/// connections is not counted.
const KEPT_MAX: usize = 16 * 1024;

#[derive(Default)]
pub struct Buffer {
    pub bytes: BytesMut,
    /// The most bytes that it has held since it was last empty.
    most: usize,
    /// Bytes that were ever dropped from its front.
    gone: u64,
}

impl Buffer {
    /// Drops the first bytes.
    pub fn advance(&mut self, count: usize) {
        self.most = self.most.max(self.bytes.len());
        self.gone += count as u64;
        self.bytes.advance(count);
    }

    /// Where the next byte will stand, and the first one that is held stands, among all that were
    /// ever in it.
    pub fn end(&self) -> u64 {
        self.gone + self.bytes.len() as u64
    }

    pub fn start(&self) -> u64 {
        self.gone
    }

    /// Gives back the memory that a large request or reply took, once it is empty.
    pub fn shrink(&mut self) {
        self.most = self.most.max(self.bytes.len());
        if self.bytes.is_empty() {
            if self.most > KEPT_MAX {
                *self = Self { gone: self.gone, ..Self::default() };
            }
            self.most = 0;
        }
    }

    /// The memory that it takes, about: bytes dropped from its front still take their room.
    pub fn held(&self) -> usize {
        self.most.max(self.bytes.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that come, bytes that go; what it holds then, and what it keeps when it is shrunk.
    #[test]
    fn memory() {
        for (came, went, held, kept) in [
            (0, 0, 0, false),
            (KEPT_MAX, KEPT_MAX, KEPT_MAX, true),
            (KEPT_MAX + 1, 1, KEPT_MAX + 1, true),
            (KEPT_MAX + 1, KEPT_MAX + 1, KEPT_MAX + 1, false),
        ] {
            let mut buffer = Buffer::default();
            buffer.bytes.resize(came, b'x');
            buffer.advance(went);
            assert_eq!(buffer.held(), held, "{came} - {went}");
            assert_eq!((buffer.start(), buffer.end()), (went as u64, came as u64));
            buffer.shrink();
            assert_eq!((buffer.start(), buffer.end()), (went as u64, came as u64));
            assert_eq!(buffer.bytes.len(), came - went);
            assert_eq!(buffer.held(), if came == went { 0 } else { held }, "{came} - {went}");
            // Room at its front is used again.
            buffer.bytes.reserve(1);
            assert_eq!(buffer.bytes.capacity() >= came.max(1) && came > 0, kept, "{came} - {went}");
        }
    }
}
