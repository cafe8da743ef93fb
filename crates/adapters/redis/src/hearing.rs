//! What a listener makes of what it hears. Runs where the connection is read, so it never waits.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use dunlin_model::NodeId;
use dunlin_ports::Frame;
use redis::{PushInfo, PushKind, Value};
use tokio::sync::mpsc;
use tracing::{debug, warn};

use crate::wire::{self, ListenerId, Said};

/// Of so many publishers the last number is known. Above that all are forgotten: then a late frame would not be told from a new one.
const PUBLISHERS_MAX: usize = 10_000;

pub struct Hearing {
    node: NodeId,
    me: ListenerId,
    queue: mpsc::Sender<Frame>,
    heard: Mutex<Heard>,
}

#[derive(Default)]
struct Heard {
    /// Whether our own announcement has come by. Those who announced themselves before it are those whom we took over from.
    myself: bool,
    /// What comes after that is another's.
    is_taken_over: bool,
    last_numbers: HashMap<NodeId, u64>,
}

/// Why a subscription is of no more use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// The connection broke, or the channel belongs to another node now.
    Lost,
    TakenOver,
}

impl Hearing {
    pub fn new(node: NodeId, me: ListenerId, queue: mpsc::Sender<Frame>) -> Hearing {
        Hearing { node, me, queue, heard: Mutex::default() }
    }

    pub fn hear(&self, push: PushInfo) -> Option<End> {
        match (push.kind, push.data.as_slice()) {
            (PushKind::SMessage, [_channel, Value::BulkString(bytes)]) => self.said(bytes),
            (PushKind::SUnsubscribe | PushKind::Disconnection, _) => Some(End::Lost),
            _ => None,
        }
    }

    fn said(&self, bytes: &[u8]) -> Option<End> {
        let said = match wire::read(bytes) {
            Ok(said) => said,
            Err(error) => {
                warn!(node = %self.node, bytes = bytes.len(), %error, "an unreadable frame was dropped; its number will be missed");
                return None;
            }
        };
        // Each change leaves it whole.
        let mut heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        match said {
            Said::TakeOver(by) if by == self.me => heard.myself = true,
            Said::TakeOver(_) => {
                heard.is_taken_over |= heard.myself;
                return heard.myself.then_some(End::TakenOver);
            }
            Said::Frame(_) if heard.is_taken_over => {}
            Said::Frame(frame) if heard.is_late(&frame) => {
                debug!(node = %self.node, publisher = %frame.publisher, number = frame.number, "a frame came late or twice and was dropped");
            }
            // A full queue is a loss, which the next number tells.
            Said::Frame(frame) => drop(self.queue.try_send(frame)),
        }
        None
    }
}

impl Heard {
    /// The driver repeats what may not have arrived, and in doing so may overtake itself. Whoever reads is promised an order.
    fn is_late(&mut self, frame: &Frame) -> bool {
        if self.last_numbers.len() >= PUBLISHERS_MAX {
            self.last_numbers.clear();
        }
        let last = self.last_numbers.entry(frame.publisher).or_default();
        let is_late = frame.number <= *last;
        *last = frame.number.max(*last);
        is_late
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: NodeId = NodeId(1);
    const ME: ListenerId = ListenerId(1);
    const OTHER: ListenerId = ListenerId(2);

    fn hearing(frames_max: usize) -> (Hearing, mpsc::Receiver<Frame>) {
        let (queue, frames) = mpsc::channel(frames_max);
        (Hearing::new(NODE, ME, queue), frames)
    }

    fn message(bytes: Vec<u8>) -> PushInfo {
        PushInfo { kind: PushKind::SMessage, data: vec![Value::BulkString(b"channel".to_vec()), Value::BulkString(bytes)] }
    }

    fn numbers(frames: &mut mpsc::Receiver<Frame>) -> Vec<(u64, u64)> {
        std::iter::from_fn(|| frames.try_recv().ok()).map(|frame| (frame.publisher.0, frame.number)).collect()
    }

    #[test]
    fn what_comes_late_or_twice_is_dropped() {
        let (hearing, mut frames) = hearing(10);
        for (publisher, number) in [(7, 1), (7, 3), (7, 2), (7, 3), (8, 1), (7, 4)] {
            assert_eq!(hearing.hear(message(wire::frame(NodeId(publisher), number, &[]))), None);
        }
        assert_eq!(numbers(&mut frames), [(7, 1), (7, 3), (8, 1), (7, 4)]);
    }

    #[test]
    fn a_full_queue_leaves_a_gap() {
        let (hearing, mut frames) = hearing(2);
        for number in 1..=4 {
            hearing.hear(message(wire::frame(NODE, number, &[])));
        }
        assert_eq!(numbers(&mut frames), [(1, 1), (1, 2)]);
        hearing.hear(message(wire::frame(NODE, 5, &[])));
        assert_eq!(numbers(&mut frames), [(1, 5)]);
    }

    #[test]
    fn an_unreadable_frame_is_a_gap_and_no_end() {
        let (hearing, mut frames) = hearing(10);
        for bytes in [b"".to_vec(), b"hello".to_vec(), vec![1, 0xff]] {
            assert_eq!(hearing.hear(message(bytes)), None);
        }
        assert_eq!(hearing.hear(PushInfo { kind: PushKind::SMessage, data: vec![] }), None);
        assert_eq!(numbers(&mut frames), []);
    }

    #[test]
    fn of_two_who_begin_at_once_the_later_announced_stays() {
        let (hearing, _frames) = hearing(10);
        assert_eq!(hearing.hear(message(wire::take_over(OTHER))), None, "we come after them");
        assert_eq!(hearing.hear(message(wire::take_over(ME))), None);
        assert_eq!(hearing.hear(message(wire::take_over(OTHER))), Some(End::TakenOver));
    }

    /// The connection may go on for a moment.
    #[test]
    fn who_was_taken_over_hears_nothing_more() {
        let (hearing, mut frames) = hearing(10);
        for by in [ME, OTHER] {
            hearing.hear(message(wire::take_over(by)));
        }
        assert_eq!(hearing.hear(message(wire::frame(NODE, 1, &[]))), None);
        assert_eq!(numbers(&mut frames), []);
    }

    #[test]
    fn a_channel_that_moves_away_is_lost() {
        let (hearing, _frames) = hearing(10);
        for kind in [PushKind::SUnsubscribe, PushKind::Disconnection] {
            assert_eq!(hearing.hear(PushInfo { kind, data: vec![] }), Some(End::Lost));
        }
    }
}
