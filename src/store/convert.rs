//! Rewriting pending members in the other format, page by page.
//!
//! Others go on meanwhile: each page is one script, which reads a member and puts the other form in
//! its place, in zset and list, in one step. What leaves the list between two pages moves the rest,
//! so a pass may overlook some; passes are repeated until one finds nothing. Then the zset is gone
//! through, which has what no list has, and says what stays as it is.

use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, sleep};

use crate::domain::queue::{Format, QueueName};
use crate::store::answer::Answer;
use crate::store::cursor::{Cursor, Pages};
use crate::store::keys::QueueKeys;
use crate::store::messages::part_applied;
use crate::store::script::{CONVERT_LISTED, CONVERT_PENDING, Script};
use crate::store::search::{BYTES_MAX, LOOK_MAX};
use crate::store::{Store, StoreError, number};

/// Members that one call rewrites: about 2 ms of Redis where the list has a million.
const CONVERT_MAX: u64 = 50;
/// Passes over the list of a busy queue; what they overlook is found in the zset.
const PASSES_MAX: u32 = 16;
/// The longest rest after a page.
const REST_MAX: Duration = Duration::from_millis(250);

/// The outcome for the pending messages of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Converted {
    pub converted: u64,
    /// Those that are not in the format: it cannot hold them, or nobody can read them.
    pub left: u64,
}

impl Store {
    /// Rewrites what is pending in this format, or in that of the queue. Safe to cancel and to
    /// repeat: what is done is done.
    ///
    /// # Errors
    /// As every call; uncertain where some are rewritten.
    pub async fn convert(
        &self,
        queue: &QueueName,
        format: Option<Format>,
    ) -> Result<Converted, StoreError> {
        let k = QueueKeys::new(queue.as_bytes());
        let start = [
            Bytes::copy_from_slice(queue.as_bytes()),
            Bytes::from_static(format.map_or("", Format::as_str).as_bytes()),
        ];
        let mut sum = Converted::default();
        for _ in 0..PASSES_MAX {
            let (mut index, mut found) = (0, 0);
            while index >= 0 {
                let page =
                    [number(index), number(LOOK_MAX), number(CONVERT_MAX), number(BYTES_MAX)];
                let args = start.iter().cloned().chain(page).collect();
                let answered = self.convert_page(&CONVERT_LISTED, &k, args).await;
                let done = sum.converted + found;
                let mut answer = answered.map_err(|error| part_applied(error, done))?;
                index = answer.int()?;
                found += answer.count()?;
            }
            sum.converted += found;
            if found == 0 {
                break;
            }
        }
        let mut pages = Pages::default();
        loop {
            let bounds = [number(LOOK_MAX), number(BYTES_MAX)];
            let page = pages.cursor.args().into_iter().chain(bounds);
            let args = start.iter().cloned().chain(page).collect();
            let answered = self.convert_page(&CONVERT_PENDING, &k, args).await;
            let mut answer = answered.map_err(|error| part_applied(error, sum.converted))?;
            if answer.status == "LOST" {
                pages.lost(sum.converted)?;
                sum.left = 0;
                continue;
            }
            sum.converted += answer.count()?;
            sum.left += answer.count()?;
            pages.cursor = Cursor::read(&mut answer)?;
            if pages.cursor.is_end() {
                return Ok(sum);
            }
        }
    }

    /// One page, and then a rest as long as it took: others of Redis get half of its time.
    async fn convert_page(
        &self,
        script: &'static Script,
        k: &QueueKeys,
        args: Vec<Bytes>,
    ) -> Result<Answer, StoreError> {
        let began = Instant::now();
        let answer = self.write(script, k.of(script), args).await?;
        sleep(began.elapsed().min(REST_MAX)).await;
        Ok(answer)
    }
}
