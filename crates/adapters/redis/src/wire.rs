//! What is said on a node's channel, as bytes: a format byte, then CBOR with numbered fields, as everywhere.

use dunlin_model::{DecodeError, NodeId, Outcome, RequestId};
use dunlin_ports::{Frame, Notice};
use minicbor::{Decode, Encode};

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Said {
    Frame(Frame),
    /// Whoever listened before may stop.
    TakeOver(ListenerId),
}

/// Random: one for each call of `listen`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Encode, Decode)]
#[cbor(transparent)]
pub struct ListenerId(#[n(0)] pub u64);

pub fn frame(publisher: NodeId, number: u64, notices: &[Notice]) -> Vec<u8> {
    let notices = notices.iter().map(|Notice::Outcome { request, outcome }| Row::Outcome(*request, *outcome)).collect();
    dunlin_model::encode(&Wire::Frame(publisher, number, notices))
}

pub fn take_over(by: ListenerId) -> Vec<u8> {
    dunlin_model::encode(&Wire::TakeOver(by))
}

pub fn read(bytes: &[u8]) -> Result<Said, DecodeError> {
    Ok(match dunlin_model::decode(bytes)? {
        Wire::Frame(publisher, number, rows) => {
            let notices = rows.into_iter().map(|Row::Outcome(request, outcome)| Notice::Outcome { request, outcome }).collect();
            Said::Frame(Frame { publisher, number, notices })
        }
        Wire::TakeOver(by) => Said::TakeOver(by),
    })
}

#[derive(Encode, Decode)]
enum Wire {
    #[n(0)]
    Frame(#[n(0)] NodeId, #[n(1)] u64, #[n(2)] Vec<Row>),
    #[n(1)]
    TakeOver(#[n(0)] ListenerId),
}

#[derive(Encode, Decode)]
enum Row {
    #[n(0)]
    Outcome(#[n(0)] RequestId, #[n(1)] Outcome),
}

#[cfg(test)]
mod tests {
    use data_encoding::HEXLOWER;
    use dunlin_model::Seq;

    use super::*;

    fn done(request: u64) -> Notice {
        Notice::Outcome { request: RequestId(request), outcome: Outcome::Done(Seq::from_u64(7).unwrap()) }
    }

    #[test]
    fn what_was_said_reads_back() {
        let notices = vec![done(1), done(u64::MAX)];
        let frame_bytes = frame(NodeId(3), 9, &notices);
        assert_eq!(read(&frame_bytes).unwrap(), Said::Frame(Frame { publisher: NodeId(3), number: 9, notices }));
        assert_eq!(read(&take_over(ListenerId(5))).unwrap(), Said::TakeOver(ListenerId(5)));
    }

    /// Nodes of two versions talk to each other during an upgrade.
    #[test]
    fn the_bytes_are_fixed() {
        assert_eq!(HEXLOWER.encode(&frame(NodeId(3), 9, &[done(1)])), "018200830309818200820182038107");
        assert_eq!(HEXLOWER.encode(&take_over(ListenerId(5))), "0182018105");
    }

    #[test]
    fn what_is_cut_or_strange_is_an_error() {
        let whole = frame(NodeId(3), 9, &[done(1), done(2)]);
        for end in 0..whole.len() {
            assert!(read(&whole[..end]).is_err(), "{end} bytes");
        }
        assert!(read(b"hello").is_err());
        // A notice of a kind that is not known here: 1, frame(3, 9, [kind 9 of nothing]).
        assert!(read(&[1, 0x82, 0, 0x83, 3, 9, 0x81, 0x82, 9, 0x80]).is_err());
    }
}
