//! What was acknowledged. Lanes count their sends from 0 on, so what needs a list is only what was not acknowledged.

/// The sends of one lane, in its order.
#[derive(Clone, Debug, Default)]
pub struct LaneRecord {
    pub lane: u32,
    /// How many were tried.
    pub tried: u32,
    /// Which are not in the log.
    pub refused: Vec<u32>,
    /// Which may or may not be.
    pub unknown: Vec<u32>,
    /// Acknowledged ones whose outcome was not "accepted, at the place that was acknowledged".
    pub surprises: u64,
}

impl LaneRecord {
    pub fn acked(&self) -> u64 {
        u64::from(self.tried) - (self.refused.len() + self.unknown.len()) as u64
    }
}

#[derive(Debug, Default)]
pub struct Ledger {
    lanes: Vec<LaneRecord>,
}

impl Ledger {
    /// A record for a new lane. What it becomes is to be kept again.
    pub fn lane(&mut self) -> LaneRecord {
        let record = LaneRecord { lane: self.lanes.len() as u32, ..LaneRecord::default() };
        self.lanes.push(record.clone());
        record
    }

    pub fn keep(&mut self, record: LaneRecord) {
        let place = record.lane as usize;
        self.lanes[place] = record;
    }

    pub fn lanes(&self) -> &[LaneRecord] {
        &self.lanes
    }

    pub fn acked(&self) -> u64 {
        self.lanes.iter().map(LaneRecord::acked).sum()
    }
}
