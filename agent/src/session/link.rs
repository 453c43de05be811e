//! What attempts see of a session: where to put what they have to say, and how much the coordinator has already.
//! A new session is a new link; an attempt that sees one begins again at the coordinator's offsets.

use std::collections::HashMap;
use std::sync::Arc;

use proto::v1::{Channel, Chunk, agent_message, event};
use tokio::sync::{mpsc, watch};

/// Something an attempt says. Unbounded, because attempts bound themselves: see `attempt::tail`.
#[derive(Debug)]
pub enum Outgoing {
    Chunk(Chunk),
    Event {
        attempt: String,
        event: event::Event,
    },
    /// What needs neither an order nor an acknowledgement.
    Message(Box<agent_message::Message>),
}

#[derive(Clone)]
pub struct Link {
    pub out: mpsc::UnboundedSender<Outgoing>,
    pub offsets: Arc<HashMap<(String, Channel), u64>>,
}

/// The link of now; absent between sessions.
pub type Links = watch::Receiver<Option<Link>>;

impl Link {
    /// How many bytes of this channel the coordinator has.
    #[must_use]
    pub fn offset(&self, attempt: &str, channel: Channel) -> u64 {
        let key = (attempt.to_owned(), channel);
        self.offsets.get(&key).copied().unwrap_or(0)
    }
}
