//! What is in deploy/, and the commands that documents name, fit the program: files are right, variables are keys, commands exist. No
//! container is run here.

#![allow(clippy::unwrap_used, reason = "a test that can't go on has failed")]

mod compose;

use std::{
    collections::BTreeSet,
    fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use compose::Compose;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
/// Variables of the command line itself.
const NO_KEYS: [&str; 2] = ["DUNLIN_CONFIG", "DUNLIN_LOG"];

fn deploy(name: &str) -> PathBuf {
    Path::new(ROOT).join("deploy").join(name)
}

fn read(name: &str) -> String {
    fs::read_to_string(deploy(name)).unwrap()
}

/// Every key's variable.
fn keys() -> BTreeSet<String> {
    let defaults: toml::Table = dunlin::config::DEFAULT.parse().unwrap();
    let keys = defaults
        .iter()
        .flat_map(|(section, values)| values.as_table().unwrap().keys().map(move |key| format!("DUNLIN_{section}_{key}").to_uppercase()));
    keys.collect()
}

/// `NAME=value` of each line that begins with `before`, however many there are in a line.
fn variables(text: &str, before: &str) -> Vec<(String, String)> {
    let lines = text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.strip_prefix(before));
    let pairs = lines.flat_map(str::split_whitespace).filter(|word| word.starts_with("DUNLIN_"));
    pairs.map(|pair| pair.split_once('=').unwrap()).map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// Whether the cluster's configuration is right with these variables above it. Secrets are one that this machine has, and whom the system
/// trusts is trusted; and a build without TLS to Kafka and Cassandra is told not to use it.
fn checked(given: &[(String, String)]) -> Output {
    let secret = tempfile::NamedTempFile::new().unwrap();
    fs::write(secret.path(), "0123456789abcdef0123456789abcdef").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_dunlin"));
    command.args(["config", "check"]).envs(given.iter().cloned());
    command.env("DUNLIN_CONFIG", deploy("dunlin.cluster.toml")).env("DUNLIN_AUTH_SECRET_FILE", secret.path());
    for engine in ["KAFKA", "CASSANDRA", "REDIS", "POSTGRES"] {
        command.env(format!("DUNLIN_{engine}_PASSWORD_FILE"), secret.path()).env(format!("DUNLIN_{engine}_CA_FILE"), "");
    }
    if !cfg!(feature = "tls") {
        command.envs([("DUNLIN_KAFKA_TLS", "false"), ("DUNLIN_KAFKA_SASL", "plain"), ("DUNLIN_CASSANDRA_TLS", "false")]);
    }
    command.output().unwrap()
}

fn assert_right(given: &[(String, String)]) {
    let output = checked(given);
    assert!(output.status.success(), "{given:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn assert_command(words: &[&str]) {
    let output = Command::new(env!("CARGO_BIN_EXE_dunlin")).args(words).arg("--help").output().unwrap();
    assert!(output.status.success(), "dunlin {}: {}", words.join(" "), String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_configuration_of_a_cluster_is_right() {
    assert_right(&[]);
    let wrong = checked(&[("DUNLIN_ENGINES_BUS".to_owned(), "memory".to_owned())]);
    assert_eq!(wrong.status.code(), Some(2), "the check can fail");
}

#[test]
fn variables_are_keys_of_the_configuration() {
    let (unit, compose) = (read("dunlin.service"), Compose::read());
    let of_unit = [variables(&unit, "Environment="), variables(&read("node.env"), "")].concat();
    let of_image = variables(&read("Dockerfile"), "ENV ");
    let (keys, dunlins) = (keys(), compose.dunlins());
    assert!(!of_unit.is_empty() && !of_image.is_empty() && dunlins.len() == 4, "{dunlins:?}");
    for (place, given) in [("dunlin.service", of_unit), ("Dockerfile", of_image)]
        .into_iter()
        .chain(dunlins.iter().map(|name| (name.as_str(), compose.environment(name))))
    {
        for (name, _) in &given {
            assert!(keys.contains(name) || NO_KEYS.contains(&name.as_str()), "{place}: {name} is no key");
        }
        assert_right(&given);
    }
}

#[test]
fn services_run_commands_that_exist() {
    let compose = Compose::read();
    for name in compose.dunlins() {
        let command = compose.words(&name, "command");
        assert!(!command.is_empty(), "{name} has a command");
        assert_command(&command.iter().map(String::as_str).collect::<Vec<_>>());
    }
    let unit = read("dunlin.service");
    let started: Vec<_> = unit.lines().filter_map(|line| line.strip_prefix("ExecStart")?.split_once("/usr/local/bin/dunlin ")).collect();
    assert_eq!(started.len(), 2, "{started:?}");
    for (_, words) in started {
        assert_command(&words.split(' ').collect::<Vec<_>>());
    }
    assert!(read("Dockerfile").ends_with("ENTRYPOINT [\"dunlin\"]\nCMD [\"serve\"]\n"));
}

#[test]
fn what_compose_names_is_there() {
    let compose = Compose::read();
    for name in compose.services() {
        for (kind, named) in compose.named(&name) {
            assert!(compose.has(kind, &named), "{name}: there is no {named} under {kind}");
        }
    }
    for file in compose.files("configs") {
        assert!(deploy(&file).is_file(), "{file}");
    }
    // Made by the script, and by nothing else.
    let script = read("secrets.sh");
    for file in compose.files("secrets") {
        let name = file.strip_prefix("./secrets/").unwrap();
        assert!(script.split_whitespace().any(|word| word.trim_end_matches(';') == name), "secrets.sh makes no {name}");
    }
    for name in compose.services() {
        for (variable, value) in compose.environment(&name) {
            let is_secret = ["PASSWORD", "SECRET"].iter().any(|word| variable.contains(word));
            assert!(!is_secret || value.is_empty() || value.starts_with("/run/secrets/"), "{name}: {variable} is a secret in the file");
        }
    }
}

#[test]
fn the_engines_of_the_configuration_are_services() {
    let (config, compose) = (read("dunlin.cluster.toml").parse::<toml::Table>().unwrap(), Compose::read());
    let list =
        |section: &str, key: &str| config[section][key].as_array().unwrap().iter().map(|one| one.as_str().unwrap()).collect::<Vec<_>>();
    let url = config["postgres"]["lookup"].as_str().unwrap();
    let postgres = url.trim_start_matches("postgres://").split('/').next().unwrap().split(',').collect();
    let hosts = [list("kafka", "brokers"), list("cassandra", "nodes"), list("redis", "nodes"), postgres].concat();
    assert_eq!(hosts.len(), 3 + 3 + 6 + 2);
    for host in hosts {
        let (name, _port) = host.split_once(':').unwrap();
        assert!(compose.has("services", name), "{name}");
    }
}

#[test]
fn the_health_check_tells_a_server_that_is_there_from_one_that_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Command::new(env!("CARGO_BIN_EXE_dunlin"));
    server.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(dir.path().join("data")).env("DUNLIN_LOG", "error");
    let mut server = server.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines().map(Result::unwrap);
    let address = lines.find_map(|line| Some(line.split_once(" on http://")?.1.to_owned())).unwrap();
    let (_, port) = address.rsplit_once(':').unwrap();
    let check = Compose::read().health_check("dunlin-1");
    assert_eq!((check[0].as_str(), check.len()), ("CMD", 4));
    let is_well = || {
        let words: Vec<String> = check[1..].iter().map(|word| word.replace("7400", port)).collect();
        Command::new(&words[0]).args(&words[1..]).stderr(Stdio::null()).status().unwrap().success()
    };
    let was_well = is_well();
    server.kill().unwrap();
    server.wait().unwrap();
    assert!(was_well && !is_well());
}

/// Lines of shell in documents that call `dunlin`, up to the first word that is an argument.
#[test]
fn commands_that_documents_name_exist() {
    let folders = ["deploy", "docs/operate"].map(|folder| fs::read_dir(Path::new(ROOT).join(folder)).unwrap());
    let documents =
        folders.into_iter().flatten().map(|entry| entry.unwrap().path()).filter(|path| path.extension().is_some_and(|end| end == "md"));
    let mut commands = BTreeSet::new();
    for document in documents {
        let text = fs::read_to_string(&document).unwrap();
        let shell = text.split("```").filter_map(|block| block.strip_prefix("sh\n")).flat_map(str::lines).map(str::to_owned);
        for line in shell.filter(|line| line.starts_with("dunlin ")) {
            let is_name = |word: &&str| word.bytes().all(|byte| byte.is_ascii_lowercase());
            commands.insert(line.split(' ').skip(1).take_while(is_name).map(str::to_owned).collect::<Vec<_>>());
        }
    }
    assert!(commands.len() > 5, "{commands:?}");
    for command in commands {
        assert_command(&command.iter().map(String::as_str).collect::<Vec<_>>());
    }
}
