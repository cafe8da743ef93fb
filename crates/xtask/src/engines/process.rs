//! Processes that outlive the command that started them: known again by pid and start time, stopped, measured.

use std::{
    ffi::OsStr,
    fs::{self, File},
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Error, Result, anyhow, bail, ensure};

use super::Engine;

const STOP_LIMIT: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(20);
const TAIL_LINES: usize = 40;

/// One node of an engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    pub engine: Engine,
    /// From 1 on.
    pub node: u32,
    /// Where clients reach it: `host:port`.
    pub address: String,
    pub identity: Identity,
    pub folder: PathBuf,
    pub log: PathBuf,
    pub line: Line,
}

impl Process {
    pub fn title(&self) -> String {
        format!("{} {}", self.engine.name(), self.node)
    }

    /// As a command line names it.
    pub fn name(&self) -> String {
        format!("{}-{}", self.engine.name(), self.node)
    }

    /// The end of its log, to give an error its cause.
    pub fn last_words(&self) -> Error {
        anyhow!("its log ends with\n{}", tail(&self.log))
    }
}

/// What was said to start a process, so that it can be said again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Line {
    /// The program and its arguments.
    pub words: Vec<String>,
    /// Beside the environment of whoever says it.
    pub env: Vec<(String, String)>,
}

impl Line {
    pub fn of(command: &Command) -> Result<Line> {
        let text = |part: &OsStr| part.to_str().map(str::to_owned).with_context(|| format!("{part:?} is not UTF-8"));
        let words = [command.get_program()].into_iter().chain(command.get_args()).map(text).collect::<Result<_>>()?;
        let given = command.get_envs().filter_map(|(key, value)| Some((key, value?)));
        Ok(Line { words, env: given.map(|(key, value)| Ok((text(key)?, text(value)?))).collect::<Result<_>>()? })
    }

    pub fn command(&self) -> Result<Command> {
        let (program, arguments) = self.words.split_first().context("nobody noted how it was started")?;
        let mut command = Command::new(program);
        command.args(arguments).envs(self.env.iter().cloned());
        Ok(command)
    }
}

/// A pid alone may belong to another process by now; together with the boot and the start time it may not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    pub pid: u32,
    /// `boot id/start time in clock ticks`.
    pub started: String,
}

impl Identity {
    pub fn of(pid: u32) -> Option<Identity> {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (state, ticks) = state_and_start(&stat)?;
        // A zombie has ended, it only waits for its parent to notice.
        let has_ended = matches!(state, "Z" | "X");
        (!has_ended).then(|| Identity { pid, started: format!("{}/{ticks}", boot.trim()) })
    }

    pub fn is_running(&self) -> bool {
        Identity::of(self.pid).as_ref() == Some(self)
    }

    pub fn rss_bytes(&self) -> Option<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid)).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
    }
}

/// The third and the 22nd field. The second, the name, may hold spaces and parentheses, so counting begins after its last one.
fn state_and_start(stat: &str) -> Option<(&str, &str)> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    Some((fields.next()?, fields.nth(18)?))
}

/// Starts a command that goes on when this one ends, out of reach of Ctrl-C. Its output goes to `log`.
pub fn launch(command: &mut Command, folder: &Path, log: &Path) -> Result<Identity> {
    let name = command.get_program().to_string_lossy().into_owned();
    let (out, err) = streams(log)?;
    command.current_dir(folder).stdin(Stdio::null()).stdout(out).stderr(err).process_group(0);
    let mut child = command.spawn().with_context(|| format!("failed to start {name}"))?;
    let identity = Identity::of(child.id()).with_context(|| format!("{name} has ended at once:\n{}", tail(log)));
    // One that is killed while this command goes on must not stay as a zombie: PostgreSQL would not start beside itself.
    thread::spawn(move || child.wait());
    identity
}

/// Runs a command to its end. Its output is added to `log`, whose tail is in the error.
pub fn run(command: &mut Command, log: &Path, limit: Duration) -> Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let (out, err) = streams(log)?;
    let mut child = command.stdin(Stdio::null()).stdout(out).stderr(err).spawn().with_context(|| format!("failed to start {name}"))?;
    let start = Instant::now();
    let status = loop {
        match child.try_wait().with_context(|| format!("failed to wait for {name}"))? {
            Some(status) => break status,
            None if start.elapsed() < limit => thread::sleep(POLL),
            None => {
                let _ = child.kill();
                let _ = child.wait();
                bail!("{name} has not ended after {} s:\n{}", limit.as_secs(), tail(log));
            }
        }
    };
    ensure!(status.success(), "{name} ended with {status}:\n{}", tail(log));
    Ok(())
}

fn streams(log: &Path) -> Result<(File, File)> {
    let open = || File::options().create(true).append(true).open(log).with_context(|| format!("failed to open {}", log.display()));
    Ok((open()?, open()?))
}

/// Ends processes quickly, since what they store is thrown away; those that run no longer are passed over.
pub fn stop(processes: &[Process]) -> Result<()> {
    for process in running(processes) {
        // PostgreSQL must give its shared memory back; the others leave nothing outside their folders.
        signal(&process.identity, if process.engine == Engine::Postgres { "QUIT" } else { "KILL" })?;
    }
    if !all_end(processes) {
        for process in running(processes) {
            signal(&process.identity, "KILL")?;
        }
        if !all_end(processes) {
            let left: Vec<_> = running(processes).map(|process| format!("{} (pid {})", process.title(), process.identity.pid)).collect();
            bail!("failed to stop {}", left.join(", "));
        }
    }
    Ok(())
}

/// As a crash would: without a warning.
pub fn kill(processes: &[Process]) -> Result<()> {
    for process in running(processes) {
        signal(&process.identity, "KILL")?;
    }
    ensure!(all_end(processes), "failed to kill {}", processes.iter().map(Process::name).collect::<Vec<_>>().join(", "));
    // PostgreSQL does not start while it sees the pid of its last life, be it a zombie's.
    let start = Instant::now();
    while processes.iter().any(|process| Path::new(&format!("/proc/{}", process.identity.pid)).exists()) && start.elapsed() < STOP_LIMIT {
        thread::sleep(POLL);
    }
    Ok(())
}

fn running(processes: &[Process]) -> impl Iterator<Item = &Process> {
    processes.iter().filter(|process| process.identity.is_running())
}

fn all_end(processes: &[Process]) -> bool {
    let start = Instant::now();
    while running(processes).next().is_some() {
        if start.elapsed() > STOP_LIMIT {
            return false;
        }
        thread::sleep(POLL);
    }
    true
}

/// Through the shell, which always has `kill`. Its failure means that the process has ended meanwhile, or shows later.
fn signal(identity: &Identity, name: &str) -> Result<()> {
    let mut command = Command::new("sh");
    command.args(["-c", "kill -s \"$0\" \"$1\"", name, &identity.pid.to_string()]);
    command.stderr(Stdio::null()).status().context("failed to start sh")?;
    Ok(())
}

/// The last lines of a file, indented; of a file that can't be read, why.
pub fn tail(path: &Path) -> String {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) => return format!("    ({}: {error})", path.display()),
    };
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<_> = text.lines().collect();
    let last: Vec<_> = lines[lines.len().saturating_sub(TAIL_LINES)..].iter().map(|line| format!("    {line}")).collect();
    if last.is_empty() { "    (nothing)".to_owned() } else { last.join("\n") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_time_is_found_behind_any_name() {
        let rest = "S 1 42 42 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 987654 1000 200";
        assert_eq!(state_and_start(&format!("42 (redis-server) {rest}")), Some(("S", "987654")));
        assert_eq!(state_and_start(&format!("42 (a) R 1 (b)) {rest}")), Some(("S", "987654")));
        assert_eq!(state_and_start("42 (short) S 1"), None);
    }

    #[test]
    fn a_pid_with_another_start_time_is_another_process() {
        let own = Identity::of(std::process::id()).unwrap();
        assert!(own.is_running());
        assert!(own.rss_bytes().unwrap() > 0);
        assert!(!Identity { started: "0/1".to_owned(), ..own }.is_running());
    }

    #[test]
    fn a_process_that_ended_is_not_running_even_before_it_is_waited_for() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let identity = Identity::of(child.id()).unwrap();
        let process = Process {
            engine: Engine::Redis,
            node: 1,
            address: String::new(),
            identity: identity.clone(),
            folder: PathBuf::new(),
            log: PathBuf::new(),
            line: Line::default(),
        };
        stop(&[process]).unwrap();
        assert!(!identity.is_running());
        child.wait().unwrap();
    }

    #[test]
    fn what_was_said_once_can_be_said_again() {
        let mut command = Command::new("sh");
        command.args(["-c", "test \"$A\" = b"]).env("A", "b");
        let line = Line::of(&command).unwrap();
        assert_eq!(line, Line { words: ["sh", "-c", "test \"$A\" = b"].map(str::to_owned).to_vec(), env: vec![("A".into(), "b".into())] });
        assert!(line.command().unwrap().status().unwrap().success());
        assert!(Line::default().command().is_err());
    }

    #[test]
    fn a_command_that_does_not_end_is_ended() {
        let log = std::env::temp_dir().join(format!("dunlin-process-test-{}.log", std::process::id()));
        run(Command::new("sh").args(["-c", "echo one"]), &log, STOP_LIMIT).unwrap();
        let error = run(Command::new("sh").args(["-c", "echo two; exec sleep 60"]), &log, Duration::from_millis(200)).unwrap_err();
        assert!(error.to_string().ends_with("    one\n    two"), "{error}");
        let error = run(Command::new("sh").args(["-c", "exit 7"]), &log, STOP_LIMIT).unwrap_err();
        assert!(error.to_string().contains("status: 7"), "{error}");
        fs::remove_file(log).unwrap();
    }

    #[test]
    fn a_recycled_pid_is_left_alone() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let identity = Identity { pid: child.id(), started: "an earlier boot/1".to_owned() };
        let process = Process {
            engine: Engine::Redis,
            node: 1,
            address: String::new(),
            identity,
            folder: PathBuf::new(),
            log: PathBuf::new(),
            line: Line::default(),
        };
        stop(&[process]).unwrap();
        assert!(child.try_wait().unwrap().is_none());
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
