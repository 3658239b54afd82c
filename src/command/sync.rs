//! Offers with `SYNC`, where it is not known yet whether Redis can do what they want: nothing is
//! stored before it is.

use std::rc::Rc;

use bytes::Bytes;

use crate::broker::Broker;
use crate::domain::durability::Durability;

use super::redis::multi::{Queued, Ran};
use super::{Failure, Run, answer_alone};

/// How an offer goes on that cannot be stored at once: refused, or when it is known that it can.
pub fn not_now(
    broker: &Rc<Broker>,
    queue: &[u8],
    what: Durability,
    offer: impl FnOnce() -> Queued,
) -> Option<Run> {
    match broker.can_be(queue, what) {
        Some(Ok(())) => return None,
        Some(Err(error)) => return Some(Run::Ready(Failure::from(error).into())),
        None => {}
    }
    let (offer, queue, broker) = (offer(), Bytes::copy_from_slice(queue), Rc::clone(broker));
    Some(Run::Later(Box::pin(async move {
        if let Err(error) = broker.check(&queue, what).await {
            return Failure::from(error).into();
        }
        let ran = offer.run(&broker);
        broker.offers().flush();
        match ran {
            Ran::Offered(ticket, form) => answer_alone(&ticket, form).await,
            Ran::Ready(reply) => reply,
        }
    })))
}
