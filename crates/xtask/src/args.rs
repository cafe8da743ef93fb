//! What can be asked of `cargo xtask`, and the text that says so.
//!
//! Written by hand: a parser library would take longer to build than the rest of this crate.

use crate::{
    engines::request::{self, Request},
    faults,
    test::{Part, Scope},
};

pub const HELP: &str = "\
The project's own commands.

Usage: cargo xtask <command>

Commands:
  test [--embedded] [--only PART] [-- ARGS]
          The whole check, as a change must pass it: fmt, clippy, tidy, cluster, in this order; stops at the first
          failure. The part cluster runs all tests, also those on Kafka, Cassandra, Redis, PostgreSQL and S3, and starts (and
          installs) them like `engines up --s3`.
            --embedded    the part test, which needs no engines, instead of cluster
            --only PART   run one part: fmt, clippy, tidy, test or cluster
            -- ARGS       hand ARGS to `cargo test`; with -p in them, only those packages are tested
  crash [--rounds N]
          Kills a server process under load, N times (500 unless told), and checks after each restart that nothing
          acknowledged was lost or doubled. A few dozen rounds are part of `test`.
  schemathesis [--examples N]
          Calls a server with requests made up from its own OpenAPI document, right ones and wrong ones (N for each operation, 50
          unless told): no answer may be a 5xx or one that the document does not tell. Installs schemathesis from PyPI into target/.
  engines up [--set SET] [--s3] [--full-jit] | down | status | logs [ENGINE] | kill NAME… | start NAME… | promote
          The engines of a cluster on this machine, without containers: installs what is missing, starts it on free ports of the
          loopback with its data in memory, or a temporary folder, and waits until each answers. Their addresses are then in target/engines/env.
            up            does nothing if they are up; starts anew if one of them has died
              --set small   Cassandra, Kafka, PostgreSQL, three Redis masters (unless told)
              --set full    three Cassandra nodes, three Kafka brokers, PostgreSQL with a synchronous standby, six Redis nodes, S3
              --s3          an S3 server also in the small set; it takes Go, and some minutes once
              --full-jit    for measurements: JVMs that start more slowly and run faster, and
                            Cassandra syncs every 10 s, as it does unless told otherwise
            down          stops what `up` has started, and only that; the data goes too
            status        a line for each process; fails if one does not answer
            logs          the end of each log, of one engine or of all: redis, s3, postgres, cassandra, kafka
            kill          kill -9: cassandra-2, all of redis, or redis-master, kafka-controller, postgres-primary; says whom it was
            start         starts what was killed with its data (Redis has none), and waits until it answers; a PostgreSQL whose place
                          was taken becomes the standby
            promote       the standby of PostgreSQL takes its primary's place
          An engine that DUNLIN_TEST_CASSANDRA, _KAFKA, _POSTGRES, _REDIS or _S3 names is used, and neither installed nor started.
          Downloads go to DUNLIN_CACHE (~/.cache/dunlin unless told); DUNLIN_MAVEN_URL names another Maven repository.
  faults [--only ROW,…] [--seconds N] [--report FILE]
          Failures for real, on the full set of engines and three nodes under load: each is done, healed, and everything acknowledged is
          read back. Some minutes each; three of them are part of `test`. Prints a table; fails if anything was lost, doubled, out of order
          or counted wrong.
            --only ROW    node-killed, node-stopped, redis-master-killed, redis-gone, kafka-broker-killed, kafka-controller-killed,
                          kafka-gone, cassandra-node-killed, cassandra-gone, postgres-primary-killed, postgres-gone
            --seconds N   how long each failure lasts
            --report FILE where the table goes, as Markdown, or what it is made of, if the name ends with .json (unless told: target/faults)
  tidy
          What the compiler does not check: crate edges, licences of dependencies, manifests, links in Markdown.
  help
          This text; also -h and --help.

Examples:
  cargo xtask test
  cargo xtask test --only clippy
  cargo xtask test --only test -- -p dunlin-model
  cargo xtask test -- retry_returns -- --nocapture
  cargo xtask crash --rounds 2000
  cargo xtask engines up --set full

Exit status: 0 passed, 1 failed, 2 not understood.";

#[derive(Debug, PartialEq, Eq)]
pub enum Command {
    Help,
    Test(TestRequest),
    Crash { rounds: u32 },
    Schemathesis { examples: u32 },
    Engines(Request),
    Faults(faults::Request),
    Tidy,
}

const CRASH_ROUNDS: u32 = 500;
const EXAMPLES: u32 = 50;

#[derive(Debug, Default, PartialEq, Eq)]
pub struct TestRequest {
    /// `None` runs every part.
    pub only: Option<Part>,
    pub scope: Scope,
    pub cargo_test_args: Vec<String>,
}

/// The error is a sentence for whoever typed the command.
pub fn parse(args: impl IntoIterator<Item = String>) -> Result<Command, String> {
    let mut args = args.into_iter();
    let Some(command) = args.next() else {
        return Err("which command?".to_owned());
    };
    match command.as_str() {
        "help" | "-h" | "--help" => Ok(Command::Help),
        "test" => parse_test(args),
        "crash" => parse_number(args, "crash", "--rounds", CRASH_ROUNDS).map(|number| match number {
            Some(rounds) => Command::Crash { rounds },
            None => Command::Help,
        }),
        "schemathesis" => parse_number(args, "schemathesis", "--examples", EXAMPLES).map(|number| match number {
            Some(examples) => Command::Schemathesis { examples },
            None => Command::Help,
        }),
        "engines" => request::parse(args).map(|request| request.map_or(Command::Help, Command::Engines)),
        "faults" => faults::parse(args).map(|request| request.map_or(Command::Help, Command::Faults)),
        "tidy" => match args.next().as_deref() {
            None => Ok(Command::Tidy),
            Some("-h" | "--help") => Ok(Command::Help),
            Some(other) => Err(format!("`tidy` takes no arguments, but got `{other}`")),
        },
        other => Err(format!("there is no command `{other}`")),
    }
}

fn parse_test(mut args: impl Iterator<Item = String>) -> Result<Command, String> {
    let mut request = TestRequest::default();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "-h" | "--help" => return Ok(Command::Help),
            "--" => {
                request.cargo_test_args = args.by_ref().collect();
                if let Some(part) = request.only.filter(|part| *part != Part::Test) {
                    return Err(format!("what follows `--` goes to `cargo test`, which `--only {}` does not run", part.name()));
                }
            }
            "--embedded" => request.scope = Scope::Embedded,
            "--only" => {
                let name = args.next().ok_or_else(|| format!("`--only` wants a part: {}", part_names()))?;
                request.only = Some(parse_part(&name)?);
            }
            other => match other.strip_prefix("--only=") {
                Some(name) => request.only = Some(parse_part(name)?),
                None => return Err(format!("`test` does not know `{other}`; arguments for `cargo test` come after `--`")),
            },
        }
    }
    Ok(Command::Test(request))
}

/// The one option of a command, a number; none if help was asked for.
fn parse_number(mut args: impl Iterator<Item = String>, command: &str, option: &str, default: u32) -> Result<Option<u32>, String> {
    let mut number = default;
    while let Some(arg) = args.next() {
        let value = match arg.as_str() {
            "-h" | "--help" => return Ok(None),
            other if other == option => args.next().ok_or_else(|| format!("`{option}` wants a number"))?,
            other => match other.strip_prefix(option).and_then(|rest| rest.strip_prefix('=')) {
                Some(value) => value.to_owned(),
                None => return Err(format!("`{command}` does not know `{other}`")),
            },
        };
        number =
            value.parse().ok().filter(|number| *number > 0).ok_or_else(|| format!("`{option}` wants a number above 0, not `{value}`"))?;
    }
    Ok(Some(number))
}

fn parse_part(name: &str) -> Result<Part, String> {
    let part = Part::ALL.into_iter().find(|part| part.name() == name);
    part.ok_or_else(|| format!("there is no part `{name}`; the parts are {}", part_names()))
}

fn part_names() -> String {
    Part::ALL.map(Part::name).join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_line(line: &str) -> Result<Command, String> {
        parse(line.split_whitespace().map(str::to_owned))
    }

    fn test_request(only: Option<Part>, cargo_test_args: &[&str]) -> Result<Command, String> {
        let cargo_test_args = cargo_test_args.iter().map(|&arg| arg.to_owned()).collect();
        Ok(Command::Test(TestRequest { only, cargo_test_args, ..TestRequest::default() }))
    }

    #[test]
    fn test_runs_everything_unless_told() {
        assert_eq!(parse_line("test"), test_request(None, &[]));
        assert_eq!(parse_line("test --only clippy"), test_request(Some(Part::Clippy), &[]));
        assert_eq!(parse_line("test --only=fmt"), test_request(Some(Part::Fmt), &[]));
        let embedded = TestRequest { scope: Scope::Embedded, ..TestRequest::default() };
        assert_eq!(parse_line("test --embedded"), Ok(Command::Test(embedded)));
    }

    #[test]
    fn what_follows_the_dashes_goes_to_cargo_test_unread() {
        assert_eq!(parse_line("test -- a --only b -- --help"), test_request(None, &["a", "--only", "b", "--", "--help"]));
        assert_eq!(parse_line("test --only test -- a"), test_request(Some(Part::Test), &["a"]));
        assert!(parse_line("test --only fmt -- a").unwrap_err().contains("--only fmt"));
    }

    #[test]
    fn crash_takes_a_number_of_rounds() {
        assert_eq!(parse_line("crash"), Ok(Command::Crash { rounds: CRASH_ROUNDS }));
        assert_eq!(parse_line("crash --rounds 7"), Ok(Command::Crash { rounds: 7 }));
        assert_eq!(parse_line("schemathesis --examples 9"), Ok(Command::Schemathesis { examples: 9 }));
        assert_eq!(parse_line("crash --rounds=8"), Ok(Command::Crash { rounds: 8 }));
        for wrong in ["crash --rounds", "crash --rounds 0", "crash --rounds many", "crash 5"] {
            assert!(parse_line(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn help_is_given_wherever_it_is_asked_for() {
        for line in ["help", "-h", "--help", "test --help", "crash --help", "tidy -h"] {
            assert_eq!(parse_line(line), Ok(Command::Help), "{line}");
        }
    }

    #[test]
    fn help_names_every_failure() {
        for (row, _) in faults::ROWS {
            assert!(HELP.contains(row), "{row}");
        }
    }

    #[test]
    fn help_names_every_part() {
        for part in Part::ALL {
            assert!(HELP.contains(part.name()), "{part:?}");
        }
    }

    #[test]
    fn engines_hands_on_what_follows() {
        assert_eq!(parse_line("engines down"), Ok(Command::Engines(Request::Down(None))));
        assert_eq!(parse_line("engines up --help"), Ok(Command::Help));
        assert!(parse_line("engines begin").unwrap_err().contains("`begin`"));
    }

    #[test]
    fn what_is_not_understood_is_quoted() {
        assert!(parse_line("").is_err());
        assert!(parse_line("tset").unwrap_err().contains("`tset`"));
        assert!(parse_line("tidy all").unwrap_err().contains("`all`"));
        assert!(parse_line("test model").unwrap_err().contains("`model`"));
        assert!(parse_line("test --only lint").unwrap_err().contains("fmt, clippy, tidy, test, cluster"));
        assert!(parse_line("test --only").unwrap_err().contains("fmt, clippy, tidy, test, cluster"));
    }
}
