//! The messages themselves: numbers, seqs, times and buckets, and what the head says of them.

use dunlin_model::{Bucket, Last, MessageRow, MessageType, N, limits};

use super::{Conversation, Place, Report};

/// What the head should say, counted anew.
#[derive(Default)]
pub(super) struct Recount {
    last: Option<MessageRow>,
    /// Its bytes are only those of contents that are still there.
    bucket: Bucket,
}

impl Recount {
    /// Takes in the next message; true if a bucket begins with it after another one.
    pub(super) fn add(&mut self, report: &mut Report, this: Conversation<'_>, row: &MessageRow) -> bool {
        let place = Place::conversation(this.id);
        report.messages += 1;
        report.problems(&place, wrong_order(this, self.last.as_ref(), row));
        report.problems(&place, wrong_row(this, row));
        let begins = self.last.is_none() || row.bucket != self.bucket.number;
        let cut = begins && self.last.is_some();
        if begins {
            report.buckets += 1;
            report.problems(&place, wrong_bucket(self.last.as_ref(), row));
            self.bucket = Bucket { number: row.bucket, messages: 0, bytes: 0 };
        }
        self.bucket.messages += 1;
        self.bucket.bytes += row.content.as_ref().map_or(0, |content| content.bytes_len() as u64);
        if self.bucket.messages == limits::BUCKET_MESSAGES_MAX + 1 {
            report.problem(&place, format!("bucket {} holds more than {} messages", row.bucket, limits::BUCKET_MESSAGES_MAX));
        }
        self.last = Some(row.clone());
        cut
    }

    pub(super) fn end(&self, report: &mut Report, this: Conversation<'_>) {
        let head = this.head;
        let place = Place::conversation(this.id);
        let n = self.last.as_ref().map_or(N::ZERO, |row| row.n);
        if head.n != n {
            report.problem(&place, format!("head has n {}, the last message has {}", head.n.0, n.0));
        }
        let right = self.last.as_ref().map(|row| Last { seq: row.seq, at: row.created_at });
        if let Some(difference) = difference(head.last, right) {
            report.problem(&place, format!("head's last message is not the last message: {difference}"));
        }
        let (found, right) = (head.bucket, self.bucket);
        if (found.number, found.messages) != (right.number, right.messages) {
            let (number, messages) = (right.number, right.messages);
            let what = format!(
                "head counts {} messages in bucket {}, but bucket {number} is the last and holds {messages}",
                found.messages, found.number
            );
            report.problem(&place, what);
        }
        if found.bytes < right.bytes {
            report.problem(&place, format!("head counts {} bytes in its bucket, whose contents alone have {}", found.bytes, right.bytes));
        }
    }
}

fn wrong_order(this: Conversation<'_>, previous: Option<&MessageRow>, row: &MessageRow) -> Vec<String> {
    let (n, seq) = (row.n.0, row.seq);
    let mut wrong = Vec::new();
    let expected = previous.map_or(N(1), |previous| previous.n.next());
    if row.n != expected {
        wrong.push(format!("message seq {seq} has n {n}, expected {}", expected.0));
    }
    if let Some(previous) = previous.filter(|previous| previous.seq >= seq) {
        wrong.push(format!("message n {n} has seq {seq}, not above {} of the one before", previous.seq));
    }
    let earliest = previous.map_or(this.head.opened_at, |previous| previous.created_at);
    if row.created_at < earliest {
        wrong.push(format!("message n {n} has time {}, earlier than {} before it", row.created_at.0, earliest.0));
    }
    wrong
}

fn wrong_row(this: Conversation<'_>, row: &MessageRow) -> Vec<String> {
    let (n, seq, head) = (row.n.0, row.seq, this.head);
    let mut wrong = Vec::new();
    if seq < head.born || seq > head.applied {
        wrong.push(format!("message n {n} has seq {seq}, outside of {} to {} that the head covers", head.born, head.applied));
    }
    match (&row.content, row.is_deleted()) {
        (Some(_), true) => wrong.push(format!("message n {n} is deleted and still has its content")),
        (None, false) => wrong.push(format!("message n {n} has no content and is not deleted")),
        _ => {}
    }
    if let Some(revision) = row.revision.as_ref().filter(|revision| revision.at <= seq || revision.at > head.applied) {
        wrong.push(format!("message n {n} was revised at seq {}, not between its own {seq} and {}", revision.at, head.applied));
    }
    if let Some(target) = row.reply_to.filter(|target| *target < head.born || *target >= seq) {
        wrong.push(format!("message n {n} replies to seq {target}, which does not come before it"));
    }
    if let Some(sender) = row.sender.as_ref().filter(|sender| !head.is_member(sender) && row.message_type.as_str() != MessageType::ROBOT) {
        wrong.push(format!("message n {n} is from {sender}, who is no member"));
    }
    wrong
}

/// A bucket begins with this message.
fn wrong_bucket(previous: Option<&MessageRow>, row: &MessageRow) -> Option<String> {
    let expected = previous.map_or(0, |previous| previous.bucket + 1);
    (row.bucket != expected).then(|| format!("message n {} is in bucket {}, expected {expected} or the one before", row.n.0, row.bucket))
}

/// In what a last message differs from the right one.
pub(super) fn difference(found: Option<Last>, right: Option<Last>) -> Option<String> {
    match (found, right) {
        (None, None) => None,
        (Some(found), None) => Some(format!("it has seq {}, and there should be none", found.seq)),
        (None, Some(right)) => Some(format!("there is none, and it should have seq {}", right.seq)),
        (Some(found), Some(right)) if found.seq != right.seq => Some(format!("it has seq {}, expected {}", found.seq, right.seq)),
        (Some(found), Some(right)) if found.at != right.at => {
            Some(format!("seq {} has time {}, expected {}", right.seq, found.at.0, right.at.0))
        }
        _ => None,
    }
}
