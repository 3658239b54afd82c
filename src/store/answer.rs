//! The answer of a script, `{now_us, status, ...}`, read from front to back.

use bytes::Bytes;
use redis_protocol::resp3::types::{BytesFrame, Resp3Frame};

use crate::domain::queue::{Cut, Score};
use crate::store::StoreError;

#[derive(Debug)]
pub struct Answer {
    /// Redis's TIME in the script, microseconds.
    pub now_us: u64,
    /// The status word, where the script has one.
    pub status: Bytes,
    rest: std::vec::IntoIter<BytesFrame>,
}

impl Answer {
    /// # Errors
    /// `Internal` for anything but an array that begins with a number.
    pub fn new(frame: BytesFrame) -> Result<Self, StoreError> {
        let BytesFrame::Array { data, .. } = frame else {
            return Err(unexpected("an array", &frame));
        };
        let mut answer = Self { now_us: 0, status: Bytes::new(), rest: data.into_iter() };
        answer.now_us = answer.int()?.max(0) as u64;
        answer.status = answer.bytes()?;
        Ok(answer)
    }

    /// Refuses every status that means that the queue cannot be served.
    ///
    /// # Errors
    /// `BadQueue`, `WrongType`, `InUse`, `TooBig` as the script said.
    pub fn served(mut self) -> Result<Self, StoreError> {
        match &self.status[..] {
            b"BADQUEUE" => Err(StoreError::BadQueue { owner: self.bytes()?.to_vec() }),
            b"WRONGTYPE" => Err(StoreError::WrongType { key: Cut(&self.bytes()?).to_string() }),
            b"STREAM" => Err(StoreError::IsStream),
            b"TAKERS" => Err(StoreError::TakersAlone),
            b"NOSTREAM" => Err(StoreError::NoStream),
            b"NOGROUP" => Err(StoreError::NoGroup),
            b"INUSE" => Err(StoreError::InUse { key: Cut(&self.bytes()?).to_string() }),
            b"TOOBIG" => Err(StoreError::TooBig {
                size: self.count()?,
                what: self.text()?,
                max: self.count()?,
            }),
            _ => Ok(self),
        }
    }

    /// How many elements are left.
    pub fn len(&self) -> usize {
        self.rest.len()
    }

    pub fn is_empty(&self) -> bool {
        self.rest.len() == 0
    }

    /// True if text comes next.
    pub fn is_text(&self) -> bool {
        matches!(self.rest.as_slice(), [BytesFrame::BlobString { .. }, ..])
    }

    pub fn int(&mut self) -> Result<i64, StoreError> {
        match self.rest.next() {
            Some(BytesFrame::Number { data, .. }) => Ok(data),
            Some(BytesFrame::BlobString { data, .. }) => {
                let text = std::str::from_utf8(&data).ok();
                text.and_then(|text| text.parse().ok()).ok_or_else(|| misplaced("number"))
            }
            other => Err(missing("a number", other)),
        }
    }

    pub fn count(&mut self) -> Result<u64, StoreError> {
        Ok(self.int()?.max(0) as u64)
    }

    pub fn bytes(&mut self) -> Result<Bytes, StoreError> {
        match self.rest.next() {
            Some(BytesFrame::BlobString { data, .. } | BytesFrame::SimpleString { data, .. }) => {
                Ok(data)
            }
            Some(BytesFrame::Number { data, .. }) => Ok(Bytes::from(data.to_string())),
            other => Err(missing("a string", other)),
        }
    }

    pub fn text(&mut self) -> Result<String, StoreError> {
        Ok(String::from_utf8_lossy(&self.bytes()?).into_owned())
    }

    /// A score, as any version of Redis writes it.
    pub fn score(&mut self) -> Result<Score, StoreError> {
        self.score_if_any()?.ok_or_else(|| misplaced("score"))
    }

    /// `None` for an empty text: there is no score.
    pub fn score_if_any(&mut self) -> Result<Option<Score>, StoreError> {
        let text = self.bytes()?;
        let score = Score::parse(&text);
        let is_valid = score.is_some() || text.is_empty();
        if is_valid { Ok(score) } else { Err(misplaced("score")) }
    }

    /// The answer of TIME: seconds and microseconds.
    pub fn time(frame: &BytesFrame) -> Option<u64> {
        let BytesFrame::Array { data, .. } = frame else {
            return None;
        };
        let number = |frame: &BytesFrame| -> Option<u64> {
            let BytesFrame::BlobString { data, .. } = frame else {
                return None;
            };
            std::str::from_utf8(data).ok()?.parse().ok()
        };
        Some(number(data.first()?)? * 1_000_000 + number(data.get(1)?)?)
    }
}

fn unexpected(wanted: &str, found: &BytesFrame) -> StoreError {
    StoreError::Internal(format!("a script answered {:?}, not {wanted}", found.kind()))
}

/// Something else stands where the answer has `wanted`.
pub(super) fn misplaced(wanted: &str) -> StoreError {
    StoreError::Internal(format!("a script's answer has no {wanted} in its place"))
}

fn missing(wanted: &str, found: Option<BytesFrame>) -> StoreError {
    match found {
        Some(frame) => unexpected(wanted, &frame),
        None => StoreError::Internal(format!("a script's answer ends before {wanted}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is no score is an error, and never a panic.
    #[test]
    fn scores() {
        let text = |text: &'static str| BytesFrame::BlobString {
            data: Bytes::from_static(text.as_bytes()),
            attributes: None,
        };
        let number = BytesFrame::Number { data: 5, attributes: None };
        for (frame, score) in [
            (Some(text("1.5")), Some(Score::parse(b"1.5"))),
            (Some(text("-inf")), Some(Some(Score::MIN))),
            (Some(text("")), Some(None)),
            (Some(text("nan")), None),
            (Some(text("WRONGTYPE")), None),
            (Some(number), Some(Score::parse(b"5"))),
            (None, None),
        ] {
            let answer = || Answer {
                now_us: 0,
                status: Bytes::new(),
                rest: Vec::from_iter(frame.clone()).into_iter(),
            };
            let found = answer().score_if_any();
            assert!(found.is_ok() || matches!(found, Err(StoreError::Internal(_))), "{found:?}");
            assert_eq!(found.ok(), score, "{frame:?}");
            assert_eq!(answer().score().ok(), score.flatten(), "{frame:?}");
        }
    }
}
