//! The bench as it is called.

#![allow(clippy::unwrap_used, reason = "a test that can't go on has failed")]

use std::{fs, process::Command};

#[test]
fn a_quick_run_measures_everything_and_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_dunlin"));
    command.args(["bench", "engine", "--quick", "--messages", "2000", "--json", "bench.json", "--plot", "bench.svg"]);
    let run = command.current_dir(folder.path()).output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let json = fs::read_to_string(folder.path().join("bench.json")).unwrap();
    for part in ["\"disks\"", "\"raw\"", "\"acked\"", "\"visible\"", "\"paced\"", "\"reads\"", "\"replay\"", "\"ratios\"", "\"lost\": 0"] {
        assert!(json.contains(part), "{part} is missing in {json}");
    }
    let svg = fs::read_to_string(folder.path().join("bench.svg")).unwrap();
    assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n") && svg.contains("1,024 senders"), "{svg}");
    let left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "the temporary folder is gone: {left:?}");
}
