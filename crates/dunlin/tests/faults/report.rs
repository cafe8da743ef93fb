//! What came of a row: a line for whoever looks on, and a file for `cargo xtask faults`.

use std::{collections::BTreeMap, env, fs, path::PathBuf};

use serde::Serialize;

use crate::verify::Verdict;

#[derive(Serialize)]
pub struct Report {
    pub row: &'static str,
    pub what: &'static str,
    pub lasting_s: f64,
    /// Whether every sender was acknowledged something while it lasted.
    pub went_on: bool,
    pub acknowledged: u64,
    pub pending: u64,
    pub unknown: u64,
    pub never_told: u64,
    pub given_up: u64,
    /// Tries of sends and marks that were not acknowledged, by what was answered.
    pub refused: BTreeMap<String, u64>,
    pub reads: u64,
    pub reads_refused: BTreeMap<String, u64>,
    pub reads_wrong: u64,
    pub longest_pause_s: f64,
    pub longest_wait_s: f64,
    /// From the failure, or from its end where nothing can go on without it, until every sender is served at once again.
    pub recovered_s: Option<f64>,
    /// From the end of the load until everything acknowledged was visible.
    pub drained_s: Option<f64>,
    pub users: u64,
    pub users_refused: u64,
    pub users_longest_wait_s: f64,
    pub found: Verdict,
    pub check_is_clean: bool,
    /// Sentences that were learnt on the way, such as which node was killed.
    pub notes: Vec<String>,
    pub passed: bool,
}

impl Report {
    pub fn tell(&self) {
        println!("{}", serde_json::to_string_pretty(self).unwrap());
        let path = folder().join(format!("{}.json", self.row));
        fs::write(&path, serde_json::to_vec_pretty(self).unwrap()).unwrap();
    }
}

/// Where reports and logs go.
pub fn folder() -> PathBuf {
    let folder = env::var_os("DUNLIN_FAULTS_FOLDER").map_or_else(|| env::temp_dir().join("dunlin-faults"), PathBuf::from);
    fs::create_dir_all(&folder).unwrap();
    folder
}
