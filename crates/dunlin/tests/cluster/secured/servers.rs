//! A PostgreSQL and a Redis Cluster of a test's own, on loopback, that speak TLS and ask for a password. Both end with the test.

use std::{
    env, fs,
    net::{TcpListener, TcpStream},
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use tempfile::TempDir;

use super::authority::Authority;

/// The only name that certificates give.
pub const HOST: &str = "127.0.0.1";
pub const USER: &str = "dunlin";
/// A guard against hanging, nothing more.
const HUNG: Duration = Duration::from_secs(60);
const REDIS_NODES: usize = 3;

pub struct Postgres {
    pub port: u16,
    _server: Server,
    _folder: TempDir,
}

impl Postgres {
    pub fn start(authority: &Authority, password: &str) -> Postgres {
        let folder = folder();
        let (path, port) = (folder.path(), free_port(0));
        authority.vouch(HOST, path);
        fs::write(path.join("password"), password).unwrap();
        fs::set_permissions(path.join("server.key"), fs::Permissions::from_mode(0o600)).unwrap();
        let user = (fs::metadata(path).unwrap().uid() == 0).then_some("postgres");
        if let Some(user) = user {
            succeed(Command::new("chown").args(["-R", user]).arg(path));
        }
        let program = |name: &str| {
            let program = postgres_programs().join(name);
            let mut command = Command::new(if user.is_some() { "setpriv".as_ref() } else { program.as_path() });
            // It refuses to run as root.
            if let Some(user) = user {
                command.args([&format!("--reuid={user}"), &format!("--regid={user}"), "--clear-groups"]).arg(&program);
            }
            command.env_clear().envs([("PATH", "/usr/bin:/bin"), ("LC_ALL", "C.UTF-8")]).current_dir(path);
            command
        };
        let made = ["-A", "scram-sha-256", "--pwfile=password", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync", "-D", "data"];
        succeed(program("initdb").args(["-U", USER]).args(made));
        fs::write(path.join("data/pg_hba.conf"), "hostssl all all 127.0.0.1/32 scram-sha-256\n").unwrap();
        let mut server = program("postgres");
        server.args(["-D", "data", "-p", &port.to_string(), "-h", HOST, "-k", ""]);
        for setting in ["ssl=on", "ssl_cert_file=../server.pem", "ssl_key_file=../server.key", "fsync=off", "max_connections=50"] {
            server.args(["-c", setting]);
        }
        let server = Server::start(&mut server, path, port);
        Postgres { port, _server: server, _folder: folder }
    }
}

/// The newest that is there. Debian keeps its programs off PATH.
fn postgres_programs() -> PathBuf {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten().map(|entry| entry.path().join("bin"));
    let newest = versions.filter(|bin| bin.join("initdb").is_file()).max_by_key(|bin| {
        let version = bin.parent().and_then(Path::file_name).and_then(|name| name.to_str()?.parse::<u32>().ok());
        version.unwrap_or_default()
    });
    let on_path = || on_path("initdb").and_then(|program| Some(fs::canonicalize(program).ok()?.parent()?.to_owned()));
    newest.or_else(on_path).expect("PostgreSQL is missing: apt-get install postgresql")
}

pub struct Redis {
    pub nodes: Vec<String>,
    _servers: Vec<Server>,
    _folder: TempDir,
}

impl Redis {
    pub fn start(authority: &Authority, password: &str) -> Redis {
        let folder = folder();
        authority.vouch(HOST, folder.path());
        let program = redis_server(folder.path());
        let (mut nodes, mut servers) = (Vec::new(), Vec::new());
        for node in 0..REDIS_NODES {
            // Nodes talk to each other on a port that is higher by this.
            let (path, port) = (folder.path().join(node.to_string()), free_port(10_000));
            fs::create_dir(&path).unwrap();
            let mut server = Command::new(&program);
            server.args(["--port", "0", "--tls-port", &port.to_string(), "--bind", HOST, "--dir", "."]).current_dir(&path);
            server.args(["--tls-cert-file", "../server.pem", "--tls-key-file", "../server.key", "--tls-ca-cert-file", "../ca.pem"]);
            server.args(["--tls-auth-clients", "no", "--tls-cluster", "yes", "--cluster-enabled", "yes", "--cluster-node-timeout", "5000"]);
            server.args(["--requirepass", password, "--masterauth", password, "--appendonly", "no", "--save", ""]);
            servers.push(Server::start(&mut server, &path, port));
            nodes.push(format!("{HOST}:{port}"));
        }
        let redis = Redis { nodes, _servers: servers, _folder: folder };
        let ca = redis._folder.path().join("ca.pem");
        let ask = |port: &str, words: &[&str]| {
            let mut cli = Command::new(on_path("redis-cli").expect("redis-cli is missing: apt-get install redis-tools"));
            cli.env("REDISCLI_AUTH", password).args(["--tls", "--cacert"]).arg(&ca).args(["-p", port]).args(words);
            String::from_utf8(cli.output().unwrap().stdout).unwrap()
        };
        let ports = || redis.nodes.iter().map(|node| node.rsplit_once(':').unwrap().1);
        let create =
            [&["--cluster", "create"][..], &redis.nodes.iter().map(String::as_str).collect::<Vec<_>>(), &["--cluster-yes"]].concat();
        ask(ports().next().unwrap(), &create);
        until("Redis is a cluster", || {
            ports().all(|port| {
                let info = ask(port, &["CLUSTER", "INFO"]);
                info.contains("cluster_state:ok") && info.contains(&format!("cluster_known_nodes:{REDIS_NODES}"))
            })
        });
        redis
    }
}

/// One binary acts by its name as the server or as a tool that the package of the tools has.
fn redis_server(folder: &Path) -> PathBuf {
    if let Some(server) = on_path("redis-server") {
        return server;
    }
    let link = folder.join("redis-server");
    symlink(on_path("redis-check-rdb").expect("Redis is missing: apt-get install redis-tools"), &link).unwrap();
    link
}

struct Server(Child);

impl Server {
    /// It listens when this returns.
    fn start(command: &mut Command, folder: &Path, port: u16) -> Server {
        let log = fs::File::create(folder.join("log")).unwrap();
        let command = command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        let mut server = Server(command.spawn().unwrap());
        until("a server listens", || {
            let ended = server.0.try_wait().unwrap();
            assert!(ended.is_none(), "{}", fs::read_to_string(folder.join("log")).unwrap());
            TcpStream::connect((HOST, port)).is_ok()
        });
        server
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // PostgreSQL would leave its children behind if it were killed.
        let _ = Command::new("kill").args(["-INT", &self.0.id().to_string()]).status();
        let _ = self.0.wait();
    }
}

/// Other users may look into it: servers don't run as root.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    folder
}

/// One that is free, and so is the one above it by so much.
fn free_port(above: u16) -> u16 {
    let is_free = |port: &u16| port.checked_add(above).is_some_and(|port| above == 0 || TcpListener::bind((HOST, port)).is_ok());
    let ports = (0..1_000).map(|_| TcpListener::bind((HOST, 0)).unwrap().local_addr().unwrap().port());
    ports.into_iter().find(is_free).expect("some port is free")
}

fn on_path(name: &str) -> Option<PathBuf> {
    env::split_paths(&env::var_os("PATH")?).map(|folder| folder.join(name)).find(|program| program.is_file())
}

fn succeed(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < HUNG, "it took too long until {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}
