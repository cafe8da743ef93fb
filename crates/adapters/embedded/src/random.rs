//! Ids from the operating system's random numbers.

use dunlin_ports::IdGen;

pub struct RandomIds;

impl IdGen for RandomIds {
    fn bits128(&self) -> [u8; 16] {
        let mut bits = [0; 16];
        getrandom::fill(&mut bits).expect("the operating system has random bytes");
        bits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_id_comes_twice() {
        assert_ne!(RandomIds.bits128(), RandomIds.bits128());
    }
}
