//! PostgreSQL, in the full set with a standby that every commit waits for.

use std::{
    fs::{self, OpenOptions},
    io::Write as _,
    net::TcpStream,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail, ensure};

use super::{
    Engine, Process, Progress, fill,
    ports::Ports,
    process,
    programs::{self, User, command_as, find_or, on_path},
    start::{Env, Program, START_LIMIT, Start, variable},
    wait::{self, Fields},
};

const INSTALL: &str = include_str!("../../engines/install-postgres.sh");
const CONFIG: &str = include_str!("../../engines/postgresql.conf");
const MAJOR_MIN: u32 = 14;
const PROTOCOL_3: i32 = 196_608;

pub struct Postgres {
    /// The folder of its programs.
    bin: PathBuf,
    user: Option<User>,
}

pub fn install(progress: &Progress) -> Result<Postgres> {
    let bin = find_or(&format!("PostgreSQL {MAJOR_MIN} or newer"), &["postgresql"], find, install_package, progress)?;
    Ok(Postgres { bin, user: User::instead_of_root(&["postgres", "nobody"])? })
}

fn install_package() -> Result<()> {
    programs::succeed(Command::new("sh").args(["-c", INSTALL]))
}

/// The newest that is there. Debian keeps its programs off PATH; what is on PATH may be a link to them.
fn find() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten().map(|entry| entry.path().join("bin"));
    let on_path = on_path("postgres").and_then(|program| Some(fs::canonicalize(program).ok()?.parent()?.to_owned()));
    let folders = versions.chain(on_path).filter_map(|bin| {
        let major = parse_major(&programs::output(&bin.join("postgres"), &["--version"])?)?;
        let is_whole = ["initdb", "pg_basebackup"].iter().all(|program| bin.join(program).is_file());
        (major >= MAJOR_MIN && is_whole).then_some((major, bin))
    });
    folders.max().map(|(_, bin)| bin)
}

/// `postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)`.
fn parse_major(text: &str) -> Option<u32> {
    text.split_once("(PostgreSQL) ")?.1.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

impl Program for Postgres {
    fn start(&self, start: &Start) -> Result<Env> {
        let primary = self.primary(start)?;
        let mut env = vec![variable(Engine::Postgres, url(primary))];
        if start.nodes(Engine::Postgres) > 1 {
            start.wait_for(Engine::Postgres, |process| query(&process.address, "select 1").map(drop))?;
            let standby = self.standby(start, primary)?;
            env.push(("DUNLIN_TEST_POSTGRES_STANDBY".to_owned(), url(standby)));
        }
        start.wait(Engine::Postgres)?;
        Ok(env)
    }
}

impl Postgres {
    fn primary(&self, start: &Start) -> Result<u16> {
        let folder = start.node_folder(Engine::Postgres, 1)?;
        programs::give(&folder, self.user)?;
        let data = folder.join("data");
        let mut initdb = self.command("initdb", &folder);
        initdb.args(["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync", "-D"]).arg(&data);
        start.prepare(Engine::Postgres, 1, &mut initdb)?;
        self.launch(start, 1, &folder, &data)
    }

    fn standby(&self, start: &Start, primary: u16) -> Result<u16> {
        let folder = start.node_folder(Engine::Postgres, 2)?;
        programs::give(&folder, self.user)?;
        let data = folder.join("data");
        start.prepare(Engine::Postgres, 2, &mut self.backup(&folder, &primary.to_string(), &data))?;
        let standby = self.launch(start, 2, &folder, &data)?;
        wait_for_standbys(&format!("127.0.0.1:{primary}"))?;
        Ok(standby)
    }

    fn launch(&self, start: &Start, node: u32, folder: &Path, data: &Path) -> Result<u16> {
        let port = start.port(Ports::take)?;
        configure(data, &port.to_string())?;
        let mut server = self.command("postgres", folder);
        start.launch(Engine::Postgres, node, format!("127.0.0.1:{port}"), folder, server.arg("-D").arg(data))?;
        Ok(port)
    }

    fn command(&self, program: &str, folder: &Path) -> Command {
        // Nothing of the caller's environment: PGDATA and its like would be heard.
        let mut command = command_as(self.user, Path::new("env"));
        command.args(["-i", "PATH=/usr/local/bin:/usr/bin:/bin", "LC_ALL=C.UTF-8"]).arg(self.bin.join(program)).current_dir(folder);
        command
    }

    /// Copies a primary to `data`, which becomes its standby.
    fn backup(&self, folder: &Path, primary: &str, data: &Path) -> Command {
        let mut backup = self.command("pg_basebackup", folder);
        backup.args(["-h", "127.0.0.1", "-p", primary, "-U", "postgres"]);
        backup.args(["--no-sync", "-R", "-X", "stream", "-c", "fast", "-C", "-S", "standby", "-D"]).arg(data);
        backup
    }

    /// Makes a primary of the past a standby of the one that took its place. What only it had is gone.
    pub fn follow(&self, process: &Process, primary: &Process) -> Result<()> {
        let data = process.folder.join("data");
        fs::remove_dir_all(&data).with_context(|| format!("failed to remove {}", data.display()))?;
        let (_, port) = primary.address.rsplit_once(':').context("an address has a port")?;
        // Left by an attempt that came to nothing.
        query(&primary.address, "select pg_drop_replication_slot(slot_name) from pg_replication_slots where not active")?;
        process::run(&mut self.backup(&process.folder, port, &data), &process.log, START_LIMIT)?;
        let (_, port) = process.address.rsplit_once(':').context("an address has a port")?;
        configure(&data, port)?;
        wait_for_standbys(&primary.address)
    }
}

/// Commits wait for a standby from now on.
fn wait_for_standbys(primary: &str) -> Result<()> {
    query(primary, "alter system set synchronous_standby_names = '*'")?;
    query(primary, "select pg_reload_conf()").map(drop)
}

fn configure(data: &Path, port: &str) -> Result<()> {
    let path = data.join("postgresql.conf");
    let mut file = OpenOptions::new().append(true).open(&path).with_context(|| format!("failed to open {}", path.display()))?;
    file.write_all(fill(CONFIG, &[("port", port)]).as_bytes()).context("failed to configure PostgreSQL")
}

pub fn is_primary(process: &Process) -> bool {
    query(&process.address, "select pg_is_in_recovery()").is_ok_and(|answer| answer == "f")
}

/// Whether it was made to follow another, which only a promotion ends.
pub fn is_standby(process: &Process) -> bool {
    process.folder.join("data/standby.signal").exists()
}

pub fn promote(process: &Process) -> Result<()> {
    let promoted = query(&process.address, "select pg_promote()")?;
    ensure!(promoted == "t", "`select pg_promote()` gives {promoted}");
    // Copied from a primary that had a standby. This one has none, and its commits would wait for it.
    query(&process.address, "alter system reset synchronous_standby_names")?;
    query(&process.address, "select pg_reload_conf()").map(drop)
}

fn url(port: u16) -> String {
    format!("postgres://postgres@127.0.0.1:{port}/postgres")
}

/// A primary knows a standby that commits wait for, if there is to be one; a standby hears its primary.
pub fn probe(process: &Process, nodes: u32) -> Result<()> {
    let (sql, expected) = if is_primary(process) {
        ("select count(*) from pg_stat_replication where sync_state = 'sync'", (nodes - 1).to_string())
    } else {
        ("select count(*) from pg_stat_wal_receiver where status = 'streaming'", "1".to_owned())
    };
    let answer = query(&process.address, sql)?;
    ensure!(answer == expected, "`{sql}` gives {answer}");
    Ok(())
}

/// The first column of the last row, as text; empty if there is none. Understands servers that trust us only.
fn query(address: &str, sql: &str) -> Result<String> {
    let mut stream = wait::connect(address)?;
    let startup = [&PROTOCOL_3.to_be_bytes(), b"user\0postgres\0database\0postgres\0\0".as_slice()].concat();
    wait::send(&mut stream, &with_length(&startup)?)?;
    until_ready(&mut stream)?;
    wait::send(&mut stream, &[b"Q".as_slice(), &with_length(format!("{sql}\0").as_bytes())?].concat())?;
    until_ready(&mut stream)
}

/// The length counts itself.
fn with_length(body: &[u8]) -> Result<Vec<u8>> {
    Ok([&u32::try_from(body.len() + 4)?.to_be_bytes(), body].concat())
}

/// Reads messages up to that which says that the server waits for a query.
fn until_ready(stream: &mut TcpStream) -> Result<String> {
    let mut value = String::new();
    loop {
        let head = wait::receive(stream, 5)?;
        let length = Fields(&head[1..]).i32()? - 4;
        let body = wait::receive(stream, usize::try_from(length).context("a message has no length")?)?;
        let mut fields = Fields(&body);
        match head[0] {
            b'Z' => return Ok(value),
            b'E' => bail!("PostgreSQL says {}", String::from_utf8_lossy(&body).replace('\0', " ")),
            b'R' => ensure!(fields.i32()? == 0, "PostgreSQL wants a password"),
            b'D' => {
                let _columns = fields.i16()?;
                let length = usize::try_from(fields.i32()?).unwrap_or(0);
                value = String::from_utf8_lossy(fields.bytes(length)?).into_owned();
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_major_version_is_read() {
        assert_eq!(parse_major("postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)\n"), Some(15));
        assert_eq!(parse_major("postgres (PostgreSQL) 18rc1\n"), Some(18));
        assert_eq!(parse_major("postgres: not found"), None);
    }

    #[test]
    fn the_length_of_a_message_counts_itself() {
        assert_eq!(with_length(b"ab").unwrap(), [0, 0, 0, 6, b'a', b'b']);
    }
}
