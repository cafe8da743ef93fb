//! Jars from Maven Central, each as a lock list names it: its checksum, then its path in the repository.
//!
//! No Maven is needed: what a release depends on was resolved once, when its lock list was made.

use std::{
    collections::HashMap,
    fs,
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};

use super::{lock, progress::Progress};

const CENTRAL: &str = "https://repo.maven.apache.org/maven2";
const DOWNLOADS_AT_ONCE: &str = "8";

/// The jars of a lock list, in its order, downloaded unless they are there.
pub fn install(cache: &Path, name: &str, list: &'static str, progress: &Progress) -> Result<Vec<PathBuf>> {
    let jars = parse(list)?;
    let folder = cache.join(name);
    fs::create_dir_all(&folder).with_context(|| format!("failed to make {}", folder.display()))?;
    // Two checkouts share the cache.
    let _lock = lock(&cache.join("lock"))?;

    let there = checksums(&folder, jars.iter().map(|jar| jar.file.to_owned()))?;
    let missing: Vec<_> = jars.iter().filter(|jar| there.get(jar.file).map(String::as_str) != Some(jar.sha256)).collect();
    if !missing.is_empty() {
        progress.say(&format!("{name}: downloading {} of {} jars into {}", missing.len(), jars.len(), folder.display()));
        let downloaded = download(&folder, &missing, |count| progress.show(&format!("… {name}: {count} of {} jars", missing.len())));
        // What came down is kept, whatever became of the others.
        let accepted = accept(&folder, &missing);
        downloaded.and(accepted)?;
    }
    Ok(jars.iter().map(|jar| folder.join(jar.file)).collect())
}

/// What is downloaded or compiled once, for all checkouts.
pub fn cache() -> Result<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    variable("DUNLIN_CACHE")
        .or_else(|| variable("XDG_CACHE_HOME").map(|folder| folder.join("dunlin")))
        .or_else(|| variable("HOME").map(|folder| folder.join(".cache/dunlin")))
        .context("no place for downloads: none of DUNLIN_CACHE, XDG_CACHE_HOME and HOME is set")
}

#[derive(Debug, PartialEq, Eq)]
struct Jar {
    sha256: &'static str,
    /// In the repository: `group/artifact/version/artifact-version.jar`.
    path: &'static str,
    file: &'static str,
}

fn parse(list: &'static str) -> Result<Vec<Jar>> {
    let lines = list.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| parse_line(line).with_context(|| format!("a lock list has the line `{line}`"))).collect()
}

fn parse_line(line: &'static str) -> Option<Jar> {
    let (sha256, path) = line.split_once("  ")?;
    let file = path.rsplit('/').next().filter(|file| file.ends_with(".jar"))?;
    let is_checksum = sha256.len() == 64 && sha256.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    is_checksum.then_some(Jar { sha256, path, file })
}

fn part(jar: &Jar) -> String {
    format!("{}.part", jar.file)
}

/// Each to a name of its own beside, so that a download that is cut off is never taken for a jar.
fn download(folder: &Path, jars: &[&Jar], mut done: impl FnMut(usize)) -> Result<()> {
    let base = repository(|name| std::env::var(name).ok());
    let mut curl = Command::new("curl");
    curl.args([
        "--silent",
        "--show-error",
        "--no-progress-meter",
        "--fail",
        "--location",
        "--parallel",
        "--parallel-max",
        DOWNLOADS_AT_ONCE,
    ]);
    curl.args(["--retry", "3", "--connect-timeout", "20", "--speed-limit", "1000", "--speed-time", "60"]);
    curl.args(["--write-out", "%{filename_effective}\\n", "--config", "-"]);
    let start = "failed to start curl, which downloads jars: `apt install curl`";
    let mut child = curl.current_dir(folder).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().context(start)?;
    let config: String = jars.iter().map(|jar| format!("url = \"{base}/{}\"\noutput = \"{}\"\n", jar.path, part(jar))).collect();
    child.stdin.take().context("curl has an input")?.write_all(config.as_bytes()).context("failed to tell curl what to download")?;
    let lines = BufReader::new(child.stdout.take().context("curl has an output")?).lines();
    for (count, line) in lines.enumerate() {
        line.context("failed to read what curl says")?;
        done(count + 1);
    }
    let status = child.wait().context("failed to wait for curl")?;
    ensure!(status.success(), "curl ended with {status}; DUNLIN_MAVEN_URL names another Maven repository");
    Ok(())
}

/// What has the right checksum gets its name.
fn accept(folder: &Path, jars: &[&Jar]) -> Result<()> {
    let sums = checksums(folder, jars.iter().map(|jar| part(jar)))?;
    let mut wrong = Vec::new();
    for jar in jars {
        let part = part(jar);
        let path = folder.join(&part);
        match sums.get(&part) {
            Some(sum) if sum == jar.sha256 => {
                fs::rename(&path, folder.join(jar.file)).with_context(|| format!("failed to rename {}", path.display()))?;
            }
            Some(sum) => wrong.push(format!("{} has the checksum {sum}, and not that of the lock list", jar.path)),
            None => wrong.push(format!("{} did not arrive", jar.path)),
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

/// The SHA-256 of those files that exist.
fn checksums(folder: &Path, files: impl Iterator<Item = String>) -> Result<HashMap<String, String>> {
    let files: Vec<_> = files.filter(|file| folder.join(file).is_file()).collect();
    if files.is_empty() {
        return Ok(HashMap::new());
    }
    let output = Command::new("sha256sum").arg("--").args(&files).current_dir(folder).output().context("failed to start sha256sum")?;
    ensure!(output.status.success(), "sha256sum ended with {}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().filter_map(|line| line.split_once("  ")).map(|(sum, file)| (file.to_owned(), sum.to_owned())).collect())
}

/// `DUNLIN_MAVEN_URL`, else the mirror of Maven Central in the user's Maven settings, else Maven Central.
fn repository(env: impl Fn(&str) -> Option<String>) -> String {
    let settings = || fs::read_to_string(Path::new(&env("HOME")?).join(".m2/settings.xml")).ok();
    let url = env("DUNLIN_MAVEN_URL").filter(|url| !url.is_empty()).or_else(|| mirror(&settings()?)).unwrap_or_else(|| CENTRAL.to_owned());
    url.trim_end_matches('/').to_owned()
}

/// The URL of the first mirror that stands for Maven Central.
fn mirror(settings: &str) -> Option<String> {
    let bare: String = settings
        .split("<!--")
        .enumerate()
        .map(|(i, part)| if i == 0 { part } else { part.split_once("-->").map_or("", |(_, rest)| rest) })
        .collect();
    let is_for_central = |mirror: &&str| {
        let of = element(mirror, "mirrorOf").unwrap_or_default();
        let mut names = of.split(',').map(str::trim);
        names.any(|name| ["*", "central", "external:*"].contains(&name))
            && !of.contains("!central")
            && element(mirror, "blocked") != Some("true")
    };
    bare.split("<mirror>").skip(1).find(is_for_central).and_then(|mirror| element(mirror, "url").map(str::to_owned))
}

fn element<'a>(xml: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = xml.split_once(&format!("<{name}>"))?;
    rest.split_once(&format!("</{name}>")).map(|(text, _)| text.trim())
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_line_of_the_lock_lists_is_a_jar_with_a_checksum_and_a_name_of_its_own() {
        for list in [super::super::cassandra::LOCK, super::super::kafka::LOCK] {
            let jars = parse(list).unwrap();
            let files: HashSet<_> = jars.iter().map(|jar| jar.file).collect();
            assert!(jars.len() > 50);
            assert_eq!(files.len(), jars.len());
            // The names go into a configuration of curl and to sha256sum as they are.
            assert!(jars.iter().all(|jar| jar.path.chars().all(|c| c.is_ascii_alphanumeric() || "/._-+".contains(c))));
        }
    }

    #[test]
    fn a_line_without_a_checksum_is_refused_and_quoted() {
        for wrong in ["a/b/1/b-1.jar", "abc  a/b/1/b-1.jar", "0123  x"] {
            assert!(parse(wrong).unwrap_err().to_string().contains(wrong), "{wrong}");
        }
        assert_eq!(parse("# a comment\n\n").unwrap(), []);
    }

    #[test]
    fn only_what_has_the_right_checksum_becomes_a_jar() {
        let folder = std::env::temp_dir().join(format!("dunlin-jars-test-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        let jar = Jar { sha256: empty, path: "g/a/1/a-1.jar", file: "a-1.jar" };
        fs::write(folder.join("a-1.jar.part"), "something else").unwrap();
        assert!(accept(&folder, &[&jar]).unwrap_err().to_string().contains("a-1.jar"));
        assert!(!folder.join("a-1.jar").exists());
        fs::write(folder.join("a-1.jar.part"), "").unwrap();
        accept(&folder, &[&jar]).unwrap();
        assert!(folder.join("a-1.jar").is_file());
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_mirror_of_central_is_taken_from_the_settings() {
        let mirrors = |of: &str| format!("<mirrors><mirror><mirrorOf>{of}</mirrorOf><url> https://m.example/x </url></mirror></mirrors>");
        for of in ["*", "central", "other, central"] {
            assert_eq!(mirror(&mirrors(of)).as_deref(), Some("https://m.example/x"), "{of}");
        }
        for of in ["other", "external:http:*", "*,!central"] {
            assert_eq!(mirror(&mirrors(of)), None, "{of}");
        }
        assert_eq!(mirror(&format!("<!-- {} --><mirrors/>", mirrors("*"))), None);
    }

    #[test]
    fn the_variable_beats_all_and_central_is_the_last_resort() {
        assert_eq!(repository(|name| (name == "DUNLIN_MAVEN_URL").then(|| "http://m.example/".to_owned())), "http://m.example");
        assert_eq!(repository(|_| None), CENTRAL);
    }
}
