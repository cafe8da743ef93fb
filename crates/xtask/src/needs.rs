//! What the machine must have before the check starts, and how to install what is missing.
//!
//! Asked first, because the alternative is an error from deep inside a build script some minutes later.

use std::{fs, path::Path, process::Command};

use anyhow::{Context, Result, bail};

use crate::workspace::cargo;

/// Fails with one line for each need that is not met.
pub fn check(root: &Path, needs: &[Need]) -> Result<()> {
    let pinned = pinned_toolchain(root)?;
    let missing: Vec<_> = needs.iter().copied().filter(|need| !need.is_met(root, &pinned)).collect();
    if !missing.is_empty() {
        bail!("{}", report(&missing, &pinned));
    }
    Ok(())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    Toolchain,
    Rustfmt,
    Clippy,
    CCompiler,
    Git,
    Curl,
    Python,
}

impl Need {
    pub const ALL: [Need; 6] = [Need::Toolchain, Need::Rustfmt, Need::Clippy, Need::CCompiler, Need::Git, Need::Curl];

    fn is_met(self, root: &Path, pinned: &str) -> bool {
        let of = |command: &mut Command, args: &[&str]| output(command.args(args).current_dir(root));
        let version = |program: &str, args: &[&str]| of(&mut Command::new(program), args);
        match self {
            Need::Toolchain => of(&mut cargo(), &["--version"]).is_some_and(|line| is_version(&line, pinned)),
            Need::Rustfmt => of(&mut cargo(), &["fmt", "--version"]).is_some(),
            Need::Clippy => of(&mut cargo(), &["clippy", "--version"]).is_some(),
            Need::CCompiler => {
                // Build scripts honour CC, which may carry a wrapper: `ccache gcc`.
                let cc = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
                let mut words = cc.split_whitespace().chain(["--version"]);
                words.next().is_some_and(|program| version(program, &words.collect::<Vec<_>>()).is_some())
            }
            Need::Git => version("git", &["--version"]).is_some(),
            Need::Curl => version("curl", &["--version"]).is_some(),
            Need::Python => version("python3", &["-m", "venv", "--help"]).is_some(),
        }
    }

    /// What it is, and how to get it on Debian and its relatives.
    fn remedy(self, pinned: &str) -> String {
        match self {
            Need::Toolchain => format!(
                "Rust {pinned}, the version in rust-toolchain.toml: `rustup toolchain install {pinned}`, then call cargo without \
                 `+toolchain` and RUSTUP_TOOLCHAIN (rustup itself: `apt install rustup`, or https://rustup.rs)"
            ),
            Need::Rustfmt => format!("rustfmt: `rustup component add rustfmt --toolchain {pinned}`"),
            Need::Clippy => format!("clippy: `rustup component add clippy --toolchain {pinned}`"),
            Need::CCompiler => "a C compiler, `cc` or what CC names, for the bundled SQLite: `apt install build-essential`".to_owned(),
            Need::Curl => "curl, with which tests call the server as people do: `apt install curl`".to_owned(),
            Need::Python => "Python 3 with venv, for schemathesis: `apt install python3-venv`".to_owned(),
            Need::Git => "git, which lists the files to check: `apt install git`".to_owned(),
        }
    }
}

fn report(missing: &[Need], pinned: &str) -> String {
    let lines: String = missing.iter().map(|need| format!("\n  - {}", need.remedy(pinned))).collect();
    format!("this machine lacks what the check needs:{lines}")
}

fn pinned_toolchain(root: &Path) -> Result<String> {
    let path = root.join("rust-toolchain.toml");
    let text = fs::read_to_string(&path).with_context(|| format!("failed to read {}", path.display()))?;
    channel(&text).map(str::to_owned).with_context(|| format!("{} has no `channel = \"…\"`", path.display()))
}

fn channel(toolchain_toml: &str) -> Option<&str> {
    toolchain_toml.lines().find_map(|line| {
        let (key, value) = line.split_once('=')?;
        let value = value.trim().strip_prefix('"')?;
        (key.trim() == "channel").then(|| value.split('"').next())?
    })
}

/// `line` is what `cargo --version` prints: "cargo 1.95.0 (f2d3ce0bd 2026-03-21)".
fn is_version(line: &str, pinned: &str) -> bool {
    line.split_whitespace().nth(1) == Some(pinned)
}

/// Stdout, if the command could be started and succeeded.
fn output(command: &mut Command) -> Option<String> {
    let output = command.output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_channel_is_read_from_the_toolchain_file() {
        assert_eq!(channel("[toolchain]\n# channel\nchannel = \"1.2.3\" # pinned\ncomponents = []\n"), Some("1.2.3"));
        assert_eq!(channel("[toolchain]\ncomponents = [\"channel\"]\n"), None);
        assert!(pinned_toolchain(&crate::root()).is_ok());
    }

    #[test]
    fn only_the_pinned_version_will_do() {
        assert!(is_version("cargo 1.95.0 (f2d3ce0bd 2026-03-21)\n", "1.95.0"));
        assert!(!is_version("cargo 1.95.1 (f2d3ce0bd 2026-03-21)\n", "1.95.0"));
        assert!(!is_version("cargo 1.95.0-nightly (f2d3ce0bd 2026-03-21)\n", "1.95.0"));
    }

    #[test]
    fn the_report_says_what_is_missing_and_how_to_install_it() {
        let report = report(&[Need::Clippy, Need::CCompiler], "1.2.3");
        assert!(report.contains("rustup component add clippy --toolchain 1.2.3"), "{report}");
        assert!(report.contains("apt install build-essential"), "{report}");
        assert!(!report.contains("rustfmt"), "{report}");
    }

    #[test]
    fn a_program_that_is_not_there_is_missing() {
        assert_eq!(output(&mut Command::new("no-such-program-anywhere")), None);
    }
}
