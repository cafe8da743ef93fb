//! Cheap numbers that look random. The load must be the same in every run, and must not cost what it measures.

/// SplitMix64.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(mix(seed))
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// Evenly below `n`, which is not 0.
    pub fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.next()) * n as u128) >> 64) as usize
    }

    /// Below `n`, low ones more often: a hundredth of the numbers gets a fifth of the draws, a tenth nearly half.
    pub fn skewed(&mut self, n: usize) -> usize {
        let unit = (self.next() >> 11) as f64 / (1u64 << 53) as f64;
        ((n as f64 * unit * unit * unit) as usize).min(n - 1)
    }
}

pub fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_stay_below_and_skewed_ones_are_skewed() {
        let mut random = Random::new(7);
        let draws: Vec<usize> = (0..10_000).map(|_| random.skewed(1_000)).collect();
        assert!(draws.iter().all(|draw| *draw < 1_000));
        let low = draws.iter().filter(|draw| **draw < 10).count();
        assert!((1_800..2_600).contains(&low), "{low} of 10,000 draws fell on a hundredth of the numbers");
        assert!((0..1_000).all(|_| random.below(3) < 3));
    }
}
