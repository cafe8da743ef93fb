//! `cargo xtask test`: the whole check, part after part, up to the first failure.
//!
//! Progress goes to stderr, so that stdout carries what cargo and the tests print and nothing else.

use std::{
    panic::resume_unwind,
    path::Path,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};

use crate::{
    args::TestRequest,
    engines, faults,
    needs::{self, Need},
    tidy,
    workspace::cargo,
};

pub fn run(root: &Path, request: &TestRequest) -> Result<()> {
    let parts = match (request.only, request.scope) {
        (Some(part), _) => vec![part],
        // Arguments for `cargo test` pick some tests; those of the cluster are not meant.
        (None, Scope::Everything) if request.cargo_test_args.is_empty() => Part::EVERYTHING.to_vec(),
        (None, _) => Part::EMBEDDED.to_vec(),
    };
    needs::check(root, &needs_of(&parts))?;

    let start = Instant::now();
    for part in &parts {
        let (name, part_start) = (part.name(), Instant::now());
        eprintln!("==> {name}");
        if let Err(error) = part.run(root, &request.cargo_test_args) {
            bail!("{name} failed after {}: {error:#}", seconds(part_start.elapsed()));
        }
        eprintln!("==> {name} passed in {}", seconds(part_start.elapsed()));
    }
    let names: Vec<_> = parts.iter().map(|part| part.name()).collect();
    eprintln!("==> passed in {}: {}", seconds(start.elapsed()), names.join(", "));
    Ok(())
}

/// `cargo xtask crash`: the crash runs alone, more of them, on an optimised build.
pub fn crash(root: &Path, rounds: u32) -> Result<()> {
    needs::check(root, Part::Test.needs())?;
    let args = ["test", "--locked", "--release", "-p", "dunlin", "--test", "crash", "--", "--nocapture"];
    let line = format!("DUNLIN_CRASH_ROUNDS={rounds} cargo {}", args.join(" "));
    eprintln!("    {line}");
    run_to_success(&line, cargo().args(args).env("DUNLIN_CRASH_ROUNDS", rounds.to_string()).current_dir(root))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    Fmt,
    Clippy,
    Tidy,
    /// All tests that need no engines.
    Test,
    /// The same and all others, on engines that are started for it, unless some run already.
    Cluster,
}

/// Which profiles are tested.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scope {
    #[default]
    Everything,
    Embedded,
}

impl Part {
    pub const ALL: [Part; 5] = [Part::Fmt, Part::Clippy, Part::Tidy, Part::Test, Part::Cluster];

    /// In the order in which they run.
    const EMBEDDED: [Part; 4] = [Part::Fmt, Part::Clippy, Part::Tidy, Part::Test];
    const EVERYTHING: [Part; 4] = [Part::Fmt, Part::Clippy, Part::Tidy, Part::Cluster];

    pub fn name(self) -> &'static str {
        match self {
            Part::Fmt => "fmt",
            Part::Clippy => "clippy",
            Part::Tidy => "tidy",
            Part::Test => "test",
            Part::Cluster => "cluster",
        }
    }

    fn needs(self) -> &'static [Need] {
        match self {
            Part::Fmt => &[Need::Toolchain, Need::Rustfmt],
            Part::Clippy => &[Need::Toolchain, Need::Clippy, Need::CCompiler],
            Part::Tidy => &[Need::Git],
            // The tests run tidy on this workspace, hence git.
            Part::Test | Part::Cluster => &[Need::Toolchain, Need::CCompiler, Need::Git, Need::Curl],
        }
    }

    fn run(self, root: &Path, cargo_test_args: &[String]) -> Result<()> {
        match self {
            Part::Fmt => run_cargo(root, &["fmt", "--all", "--check"]).context("`cargo fmt --all` may repair it"),
            Part::Clippy => {
                run_cargo(root, &["clippy", "--workspace", "--all-targets", "--locked", "--features", ENGINES, "--", "-D", "warnings"])
            }
            Part::Tidy => tidy::run(root),
            Part::Test => run_cargo(root, &cargo_test(cargo_test_args)),
            Part::Cluster => cluster(root),
        }
    }
}

/// The features that let adapters' tests ask for real engines.
pub const ENGINES: &str =
    "dunlin/engines,dunlin-blobs/engines,dunlin-cassandra/engines,dunlin-kafka/engines,dunlin-postgres/engines,dunlin-redis/engines";

/// The workspace, not some packages: those would want their dependencies with fewer features, and build them all again.
const TEST_ALL: &[&str] = &["test", "--workspace", "--locked", "--features", ENGINES];

/// Everything: what needs no engines, the adapters' promises on real ones, the wire tests on a server that uses them all, and some failures.
fn cluster(root: &Path) -> Result<()> {
    let options = engines::request::Options { s3: engines::request::S3::InAny, ..Default::default() };
    // They are downloaded and started while the tests are compiled.
    let (engines, built) = beside(|| engines::ensure(root, options), || run_cargo(root, &[TEST_ALL, &["--no-run"]].concat()));
    let engines = engines?;
    // Tests on engines mostly wait: more of them at once than there are cores.
    let run = |profile: &str, args: &[&str]| {
        let args = [TEST_ALL, args, &["--test-threads=4"]].concat();
        let line = format!("DUNLIN_TEST_PROFILE={profile} cargo {}", args.join(" "));
        let mut command = cargo();
        command.args(args).envs(engines.env.iter().cloned()).env("DUNLIN_TEST_PROFILE", profile).current_dir(root);
        eprintln!("    {line}");
        run_to_success(&line, &mut command)
    };
    let tested = built.and_then(|()| {
        // One after the other: together they would ask more of two cores than engines stand.
        run("embedded", &["--"])?;
        run("cluster", &["--test", "wire", "--"])
    });
    // Last, for it hurts the engines.
    let tested = tested.and_then(|()| faults::short(root, &engines));
    // What ran before goes on.
    let stopped = if engines.started { engines::down(root) } else { Ok(()) };
    tested.and(stopped)
}

fn needs_of(parts: &[Part]) -> Vec<Need> {
    Need::ALL.into_iter().filter(|need| parts.iter().any(|part| part.needs().contains(need))).collect()
}

/// Cargo ignores `-p` next to `--workspace`, so a request for certain packages replaces it.
fn cargo_test(extra: &[String]) -> Vec<&str> {
    let names_packages = extra.iter().take_while(|arg| *arg != "--").any(|arg| arg.starts_with("-p") || arg.starts_with("--package"));
    let scope: &[&str] = if names_packages { &["test", "--locked"] } else { &["test", "--workspace", "--locked"] };
    scope.iter().copied().chain(extra.iter().map(String::as_str)).collect()
}

fn run_cargo(root: &Path, args: &[&str]) -> Result<()> {
    let line = format!("cargo {}", args.join(" "));
    eprintln!("    {line}");
    run_to_success(&line, cargo().args(args).current_dir(root))
}

pub fn run_to_success(line: &str, command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("failed to start `{line}`"))?;
    if !status.success() {
        bail!("`{line}` ended with {status}");
    }
    Ok(())
}

/// Both, the first in a thread of its own.
fn beside<A: Send, B>(first: impl FnOnce() -> A + Send, second: impl FnOnce() -> B) -> (A, B) {
    thread::scope(|scope| {
        let first = scope.spawn(first);
        let second = second();
        (first.join().unwrap_or_else(|panicked| resume_unwind(panicked)), second)
    })
}

fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned(args: &[&str]) -> Vec<String> {
        args.iter().map(|&arg| arg.to_owned()).collect()
    }

    #[test]
    fn cargo_test_covers_the_workspace_unless_packages_are_named() {
        assert_eq!(cargo_test(&[]), ["test", "--workspace", "--locked"]);
        assert_eq!(cargo_test(&owned(&["name", "--", "-p"])), ["test", "--workspace", "--locked", "name", "--", "-p"]);
        assert_eq!(cargo_test(&owned(&["-p", "dunlin-model"])), ["test", "--locked", "-p", "dunlin-model"]);
        assert_eq!(cargo_test(&owned(&["--package=xtask"])), ["test", "--locked", "--package=xtask"]);
    }

    #[test]
    fn the_whole_check_needs_everything_and_one_part_only_its_own() {
        assert_eq!(needs_of(&Part::ALL), Need::ALL);
        assert_eq!(needs_of(&[Part::Tidy]), [Need::Git]);
    }

    #[test]
    fn a_failing_command_is_named_in_the_error() {
        let failed = run_to_success("cargo fmt", &mut Command::new("false")).unwrap_err();
        assert_eq!(failed.to_string(), "`cargo fmt` ended with exit status: 1");
        let absent = run_to_success("cargo fmt", &mut Command::new("no-such-program-anywhere")).unwrap_err();
        assert_eq!(absent.to_string(), "failed to start `cargo fmt`");
    }
}
