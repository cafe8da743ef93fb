//! What can be asked of `cargo xtask engines`.

use std::{fmt, path::PathBuf};

use super::Engine;

#[derive(Debug, PartialEq, Eq)]
pub enum Request {
    Up(Options),
    /// `Some`: only if the engines have their data in this folder, and so are those that the caller means.
    Down(Option<PathBuf>),
    /// Without a warning, as a crash does.
    Kill(Vec<Target>),
    /// Those that don't run.
    Start(Vec<Target>),
    /// The standby of PostgreSQL takes its primary's place.
    Promote,
    Status,
    /// `None` is every engine.
    Logs(Option<Engine>),
}

/// Which processes are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    All(Engine),
    Node(Engine, u32),
    Role(Role),
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Target::All(engine) => f.write_str(engine.name()),
            Target::Node(engine, node) => write!(f, "{}-{node}", engine.name()),
            Target::Role(role) => f.write_str(Role::ALL.iter().find(|(_, named)| *named == role).map_or("it", |(name, _)| name)),
        }
    }
}

/// What one node of several is at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Of Kafka; the active one.
    Controller,
    /// Of Redis; one of them.
    Master,
    /// Of PostgreSQL.
    Primary,
}

impl Role {
    const ALL: [(&str, Role); 3] =
        [("kafka-controller", Role::Controller), ("redis-master", Role::Master), ("postgres-primary", Role::Primary)];
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    pub set: Set,
    pub jit: Jit,
    pub s3: S3,
}

/// How many nodes: one of each, or enough to lose one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Set {
    #[default]
    Small,
    Full,
}

/// How the JVMs compile: starting quickly, or running quickly once warm.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Jit {
    #[default]
    Quick,
    Full,
}

/// Which sets have an S3 server: it takes Go and minutes to compile, once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum S3 {
    #[default]
    InFull,
    InAny,
}

impl Options {
    /// Whether engines that were started so do for someone who wants these.
    pub fn cover(self, wanted: Options) -> bool {
        let has_s3 = |options: Options| options.set == Set::Full || options.s3 == S3::InAny;
        self.set == wanted.set && self.jit == wanted.jit && (has_s3(self) || !has_s3(wanted))
    }
}

impl Set {
    pub const ALL: [Set; 2] = [Set::Small, Set::Full];

    pub fn name(self) -> &'static str {
        match self {
            Set::Small => "small",
            Set::Full => "full",
        }
    }

    pub fn named(name: &str) -> Option<Set> {
        Set::ALL.into_iter().find(|set| set.name() == name)
    }
}

impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let jit = if self.jit == Jit::Full { ", full JIT" } else { "" };
        let s3 = if self.s3 == S3::InAny && self.set == Set::Small { " with S3" } else { "" };
        write!(f, "{} set{s3}{jit}", self.set.name())
    }
}

/// What follows `engines`; none if help was asked for. The error is a sentence for whoever typed the command.
pub fn parse(mut args: impl Iterator<Item = String>) -> Result<Option<Request>, String> {
    let Some(action) = args.next() else {
        return Err(format!("`engines` wants one of {ACTIONS}"));
    };
    let rest: Vec<String> = args.collect();
    if [&action].into_iter().chain(&rest).any(|arg| arg == "-h" || arg == "--help") {
        return Ok(None);
    }
    let request = match (action.as_str(), rest.as_slice()) {
        ("up", options) => Request::Up(parse_options(options)?),
        ("down", []) => Request::Down(None),
        ("down", [option, folder]) if option == "--if-in" => Request::Down(Some(folder.into())),
        ("kill" | "start", []) => return Err(format!("`engines {action}` wants to know which: cassandra, or cassandra-2")),
        ("kill", names) => Request::Kill(names.iter().map(|name| parse_target(name)).collect::<Result<_, _>>()?),
        ("start", names) => Request::Start(names.iter().map(|name| parse_target(name)).collect::<Result<_, _>>()?),
        ("promote", []) => Request::Promote,
        ("status", []) => Request::Status,
        ("logs", []) => Request::Logs(None),
        ("logs", [name]) => Request::Logs(Some(parse_engine(name)?)),
        ("down" | "promote" | "status", [other, ..]) | ("logs", [_, other, ..]) => {
            return Err(format!("`engines {action}` does not know `{other}`"));
        }
        _ => return Err(format!("`engines` does not know `{action}`; it knows {ACTIONS}")),
    };
    Ok(Some(request))
}

const ACTIONS: &str = "up, down, kill, start, promote, status, logs";

/// `cassandra`, `cassandra-2`, or what a node is: `redis-master`.
fn parse_target(name: &str) -> Result<Target, String> {
    if let Some((_, role)) = Role::ALL.into_iter().find(|(known, _)| *known == name) {
        return Ok(Target::Role(role));
    }
    match name.rsplit_once('-').and_then(|(engine, node)| Some((engine, node.parse().ok()?))) {
        Some((engine, node)) => Ok(Target::Node(parse_engine(engine)?, node)),
        None => Ok(Target::All(parse_engine(name)?)),
    }
}

fn parse_options(args: &[String]) -> Result<Options, String> {
    let mut options = Options::default();
    let mut args = args.iter().map(String::as_str);
    while let Some(arg) = args.next() {
        match arg {
            "--full-jit" => options.jit = Jit::Full,
            "--s3" => options.s3 = S3::InAny,
            "--set" => options.set = parse_set(args.next().unwrap_or_default())?,
            other => match other.strip_prefix("--set=") {
                Some(name) => options.set = parse_set(name)?,
                None => return Err(format!("`engines up` does not know `{other}`")),
            },
        }
    }
    Ok(options)
}

fn parse_set(name: &str) -> Result<Set, String> {
    Set::named(name).ok_or_else(|| format!("`--set` wants {}, not `{name}`", Set::ALL.map(Set::name).join(" or ")))
}

fn parse_engine(name: &str) -> Result<Engine, String> {
    Engine::named(name).ok_or_else(|| format!("there is no engine `{name}`; there are {}", Engine::ALL.map(Engine::name).join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_line(line: &str) -> Result<Option<Request>, String> {
        parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn up_starts_the_small_set_quickly_unless_told() {
        let up = |set, jit| Ok(Some(Request::Up(Options { set, jit, ..Options::default() })));
        assert_eq!(parse_line("up"), up(Set::Small, Jit::Quick));
        assert_eq!(parse_line("up --set full"), up(Set::Full, Jit::Quick));
        assert_eq!(parse_line("up --full-jit --set=small"), up(Set::Small, Jit::Full));
    }

    #[test]
    fn engines_with_s3_do_for_those_who_want_none() {
        let options = |line: &str| match parse_line(line) {
            Ok(Some(Request::Up(options))) => options,
            other => panic!("{other:?}"),
        };
        let (small, with_s3, full) = (options("up"), options("up --s3"), options("up --set full"));
        assert!(with_s3.cover(small) && with_s3.cover(with_s3) && small.cover(small));
        assert!(!small.cover(with_s3));
        assert!(full.cover(options("up --s3 --set full")) && options("up --s3 --set full").cover(full));
        assert!(!full.cover(with_s3) && !with_s3.cover(full) && !with_s3.cover(options("up --full-jit")));
        assert_eq!(with_s3.to_string(), "small set with S3");
    }

    #[test]
    fn logs_are_those_of_one_engine_or_of_all() {
        assert_eq!(parse_line("logs"), Ok(Some(Request::Logs(None))));
        assert_eq!(parse_line("logs kafka"), Ok(Some(Request::Logs(Some(Engine::Kafka)))));
        assert_eq!(parse_line("down"), Ok(Some(Request::Down(None))));
        assert_eq!(parse_line("status"), Ok(Some(Request::Status)));
    }

    #[test]
    fn one_process_all_of_an_engine_or_a_role_can_be_meant() {
        let kafka = [Target::Node(Engine::Kafka, 2), Target::All(Engine::Redis), Target::Role(Role::Controller)];
        assert_eq!(parse_line("kill kafka-2 redis kafka-controller"), Ok(Some(Request::Kill(kafka.to_vec()))));
        assert_eq!(parse_line("start postgres-1"), Ok(Some(Request::Start(vec![Target::Node(Engine::Postgres, 1)]))));
        assert_eq!(parse_line("promote"), Ok(Some(Request::Promote)));
        assert!(parse_line("kill").unwrap_err().contains("which"));
        assert!(parse_line("kill mysql-1").unwrap_err().contains("`mysql`"));
        assert!(parse_line("kill redis-slave").unwrap_err().contains("`redis-slave`"));
    }

    #[test]
    fn down_may_be_meant_for_certain_engines_only() {
        assert_eq!(parse_line("down --if-in /tmp/a"), Ok(Some(Request::Down(Some("/tmp/a".into())))));
        assert!(parse_line("down --if-in").is_err());
    }

    #[test]
    fn help_is_given_wherever_it_is_asked_for() {
        for line in ["-h", "up --help", "logs -h"] {
            assert_eq!(parse_line(line), Ok(None), "{line}");
        }
    }

    #[test]
    fn what_is_not_understood_is_quoted() {
        assert!(parse_line("").is_err());
        assert!(parse_line("begin").unwrap_err().contains("`begin`"));
        assert!(parse_line("up --set").unwrap_err().contains("small or full"));
        assert!(parse_line("up --set large").unwrap_err().contains("`large`"));
        assert!(parse_line("up cassandra").unwrap_err().contains("`cassandra`"));
        assert!(parse_line("down now").unwrap_err().contains("`now`"));
        assert!(parse_line("logs mysql").unwrap_err().contains("redis, s3, postgres, cassandra, kafka"));
        assert!(parse_line("logs kafka 1").unwrap_err().contains("`1`"));
    }
}
