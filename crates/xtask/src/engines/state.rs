//! What was started, in a file, so that a later command can find and stop it.

use std::{fs, path::PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::{
    Engine, Place, given,
    process::{Identity, Line, Process},
    request::{Jit, Options, S3, Set},
};

/// How the names of our temporary folders begin; no other folder is ever removed.
pub const FOLDER_PREFIX: &str = "dunlin-engines-";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    pub options: Options,
    /// Everything that the engines store.
    pub folder: PathBuf,
    /// False until each has answered: a start that was cut off leaves it so.
    pub ready: bool,
    pub processes: Vec<Process>,
    pub env: Vec<(String, String)>,
}

impl State {
    pub fn load(place: &Place) -> Result<Option<State>> {
        let path = place.state();
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).with_context(|| format!("failed to read {}", path.display())),
        };
        let state = serde_json::from_str(&text).ok().and_then(|value| State::from_json(&value));
        let unread = || format!("{} is not understood; stop the processes that it names, then remove it", path.display());
        Ok(Some(state.with_context(unread)?))
    }

    /// Whole or not at all: it is written beside and renamed.
    pub fn save(&self, place: &Place) -> Result<()> {
        let (path, beside) = (place.state(), place.state().with_extension("json.new"));
        fs::write(&beside, format!("{:#}\n", self.to_json()))
            .and_then(|()| fs::rename(&beside, &path))
            .with_context(|| format!("failed to write {}", path.display()))
    }

    /// The addresses of what was started, without those that the user gave.
    pub fn own_env(&self) -> Vec<(String, String)> {
        let is_own = |(key, _): &&(String, String)| self.processes.iter().any(|process| *key == given::variable(process.engine));
        self.env.iter().filter(is_own).cloned().collect()
    }

    pub fn remove_folder(&self) -> Result<()> {
        let is_ours = self.folder.file_name().is_some_and(|name| name.to_string_lossy().starts_with(FOLDER_PREFIX));
        ensure!(is_ours, "will not remove {}, which has no name of ours", self.folder.display());
        match fs::remove_dir_all(&self.folder) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(error).with_context(|| format!("failed to remove {}", self.folder.display()))
            }
            _ => Ok(()),
        }
    }

    fn to_json(&self) -> Value {
        let process = |process: &Process| {
            json!({
                "engine": process.engine.name(), "node": process.node, "address": process.address,
                "pid": process.identity.pid, "started": process.identity.started, "folder": process.folder, "log": process.log,
                "words": process.line.words, "env": process.line.env,
            })
        };
        json!({
            "set": self.options.set.name(), "full_jit": self.options.jit == Jit::Full, "s3": self.options.s3 == S3::InAny,
            "folder": self.folder, "ready": self.ready,
            "processes": self.processes.iter().map(process).collect::<Vec<_>>(), "env": self.env,
        })
    }

    fn from_json(value: &Value) -> Option<State> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let pairs = |value: &Value| value.as_array()?.iter().map(|pair| Some((text(&pair[0])?, text(&pair[1])?))).collect::<Option<_>>();
        let process = |value: &Value| {
            Some(Process {
                engine: Engine::named(value["engine"].as_str()?)?,
                node: value["node"].as_u64()?.try_into().ok()?,
                address: text(&value["address"])?,
                identity: Identity { pid: value["pid"].as_u64()?.try_into().ok()?, started: text(&value["started"])? },
                folder: value["folder"].as_str()?.into(),
                log: value["log"].as_str()?.into(),
                line: Line { words: value["words"].as_array()?.iter().map(text).collect::<Option<_>>()?, env: pairs(&value["env"])? },
            })
        };
        Some(State {
            options: Options {
                set: Set::named(value["set"].as_str()?)?,
                jit: if value["full_jit"].as_bool()? { Jit::Full } else { Jit::Quick },
                // Missing in what an earlier version has written.
                s3: if value["s3"] == true { S3::InAny } else { S3::InFull },
            },
            folder: value["folder"].as_str()?.into(),
            ready: value["ready"].as_bool()?,
            processes: value["processes"].as_array()?.iter().map(process).collect::<Option<_>>()?,
            env: pairs(&value["env"])?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state() -> State {
        let identity = Identity { pid: 4711, started: "boot/123".to_owned() };
        let process = Process {
            engine: Engine::Kafka,
            node: 2,
            address: "127.0.0.1:9".to_owned(),
            identity,
            folder: "/tmp/f/kafka-2".into(),
            log: "/l".into(),
            line: Line { words: vec!["java".to_owned()], env: vec![("HOME".to_owned(), "/h".to_owned())] },
        };
        State {
            options: Options { set: Set::Small, jit: Jit::Full, s3: S3::InAny },
            folder: "/tmp/dunlin-engines-1".into(),
            ready: true,
            processes: vec![process],
            env: vec![("DUNLIN_TEST_KAFKA".to_owned(), "127.0.0.1:9".to_owned())],
        }
    }

    #[test]
    fn what_is_saved_is_loaded() {
        let folder = std::env::temp_dir().join(format!("{FOLDER_PREFIX}test-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let place = Place(folder.clone());
        assert_eq!(State::load(&place).unwrap(), None);
        state().save(&place).unwrap();
        assert_eq!(State::load(&place).unwrap(), Some(state()));
        fs::write(place.state(), "{}").unwrap();
        assert!(State::load(&place).unwrap_err().to_string().contains("not understood"));
        State { folder: folder.clone(), ..state() }.remove_folder().unwrap();
        assert!(!folder.exists());
    }

    #[test]
    fn what_the_user_gave_is_not_our_own() {
        let given = ("DUNLIN_TEST_REDIS".to_owned(), "redis:6379".to_owned());
        let env = state().env.into_iter().chain([given]).collect();
        assert_eq!(State { env, ..state() }.own_env(), state().env);
    }

    #[test]
    fn a_folder_with_another_name_is_never_removed() {
        let error = State { folder: "/home".into(), ..state() }.remove_folder().unwrap_err();
        assert!(error.to_string().contains("/home"), "{error}");
    }
}
