//! Programs of the system: found, or installed with apt-get if we are root; and the users as whom they run.

use std::{
    fs::{self, Permissions},
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail, ensure};

use super::progress::Progress;

/// Below this, Cassandra 5 and Kafka 4 do not run.
const JAVA_MAJOR_MIN: u32 = 17;

/// A program in the folders of PATH.
pub fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|program| program.is_file())
}

/// What a program prints on both streams, if it can be started.
pub fn output(program: &Path, args: &[&str]) -> Option<String> {
    let output = Command::new(program).args(args).output().ok()?;
    Some(String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

/// `find`, and if that finds nothing, `find` again after an installation of packages. `name` is for people.
pub fn find_or_install<T>(name: &str, packages: &[&str], find: impl Fn() -> Option<T>, progress: &Progress) -> Result<T> {
    find_or(name, packages, find, || apt_install(packages), progress)
}

/// The same for packages that are installed in a way of their own.
pub fn find_or<T>(
    name: &str,
    packages: &[&str],
    find: impl Fn() -> Option<T>,
    install: impl FnOnce() -> Result<()>,
    progress: &Progress,
) -> Result<T> {
    if let Some(found) = find() {
        return Ok(found);
    }
    let line = format!("apt-get install {}", packages.join(" "));
    if !is_root() || on_path("apt-get").is_none() {
        bail!("{name} is missing: `{line}`, or its like on this system");
    }
    progress.say(&format!("{name} is missing: {line}"));
    install()?;
    find().with_context(|| format!("{name} is still missing after `{line}`"))
}

pub fn apt_install(packages: &[&str]) -> Result<()> {
    let install = || apt_get(&[&["install", "-y", "--no-install-recommends"], packages].concat());
    // A machine that never asked knows no packages.
    install().or_else(|_| apt_get(&["update"]).and_then(|()| install()))
}

fn apt_get(args: &[&str]) -> Result<()> {
    succeed(Command::new("apt-get").args(["-q", "-o", "Dpkg::Use-Pty=0"]).args(args).env("DEBIAN_FRONTEND", "noninteractive"))
}

/// Runs a command whose output is of interest only if it fails.
pub fn succeed(command: &mut Command) -> Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("failed to start {name}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{name} ended with {}:\n{}", output.status, said.trim_end());
    Ok(())
}

/// Of those that are new enough, the one on PATH or else the oldest: engines are tested with old ones.
pub fn java(progress: &Progress) -> Result<PathBuf> {
    let find = || {
        let home = std::env::var_os("JAVA_HOME").map(|home| PathBuf::from(home).join("bin/java"));
        let preferred = home.into_iter().chain(on_path("java")).find(|java| java_major(java) >= Some(JAVA_MAJOR_MIN));
        preferred.or_else(|| {
            let installed = fs::read_dir("/usr/lib/jvm").ok()?.flatten().map(|entry| entry.path().join("bin/java"));
            let versions = installed.filter_map(|java| Some((java_major(&java).filter(|major| *major >= JAVA_MAJOR_MIN)?, java)));
            versions.min().map(|(_, java)| java)
        })
    };
    find_or_install(&format!("Java {JAVA_MAJOR_MIN} or newer"), &["openjdk-17-jre-headless"], find, progress)
}

fn java_major(java: &Path) -> Option<u32> {
    parse_java_major(&output(java, &["-version"])?)
}

/// `openjdk version "17.0.15" 2025-04-15`; Java 8 says `"1.8.0"`.
fn parse_java_major(text: &str) -> Option<u32> {
    let version = text.split_once("version \"")?.1;
    version.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

pub fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

/// As whom an engine runs instead of root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct User {
    uid: u32,
    gid: u32,
}

impl User {
    /// The first of these users that exists; none unless we are root, when everything runs as the caller.
    pub fn instead_of_root(names: &[&str]) -> Result<Option<User>> {
        if !is_root() {
            return Ok(None);
        }
        let passwd = fs::read_to_string("/etc/passwd").context("failed to read /etc/passwd")?;
        let user = names.iter().find_map(|name| User::parse(&passwd, name));
        Ok(Some(user.with_context(|| format!("there is no user {} to run as", names.join(" or ")))?))
    }

    fn parse(passwd: &str, name: &str) -> Option<User> {
        let line = passwd.lines().find(|line| line.split(':').next() == Some(name))?;
        let mut fields = line.split(':').skip(2);
        Some(User { uid: fields.next()?.parse().ok()?, gid: fields.next()?.parse().ok()? })
    }
}

/// A command that runs as `user`; the process keeps its pid.
pub fn command_as(user: Option<User>, program: &Path) -> Command {
    let Some(User { uid, gid }) = user else {
        return Command::new(program);
    };
    let mut command = Command::new("setpriv");
    command.args([format!("--reuid={uid}"), format!("--regid={gid}"), "--clear-groups".to_owned()]).arg(program);
    command
}

/// A new folder that every user may look into.
pub fn make_open_folder(path: &Path) -> Result<()> {
    let made = fs::create_dir(path).and_then(|()| fs::set_permissions(path, Permissions::from_mode(0o755)));
    made.with_context(|| format!("failed to make {}", path.display()))
}

pub fn give(path: &Path, user: Option<User>) -> Result<()> {
    match user {
        Some(User { uid, gid }) => chown(path, Some(uid), Some(gid)).with_context(|| format!("failed to give {} away", path.display())),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_major_version_of_java_is_read() {
        assert_eq!(parse_java_major("openjdk version \"17.0.15\" 2025-04-15\nOpenJDK Runtime"), Some(17));
        assert_eq!(parse_java_major("java version \"1.8.0_392\""), Some(1));
        assert_eq!(parse_java_major("openjdk version \"25\" 2025-09-16"), Some(25));
        assert_eq!(parse_java_major("no such file"), None);
    }

    #[test]
    fn a_user_is_found_by_the_whole_name() {
        let passwd = "root:x:0:0:root:/root:/bin/bash\npostgres-old:x:5:6::/:\npostgres:x:101:104:,,,:/var/lib:/bin/bash\n";
        assert_eq!(User::parse(passwd, "postgres"), Some(User { uid: 101, gid: 104 }));
        assert_eq!(User::parse(passwd, "nobody"), None);
    }

    #[test]
    fn a_program_on_the_path_is_found() {
        assert!(on_path("sh").is_some());
        assert_eq!(on_path("no-such-program-anywhere"), None);
    }
}
