//! The workspace and its dependencies, as `cargo metadata` tells them.
//!
//! Holds only what the checks ask for.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};
use serde_json::Value;

pub struct Workspace {
    pub root: PathBuf,
    /// Our own crates and everything they depend on, with all features, for every platform.
    pub packages: Vec<Package>,
}

pub struct Package {
    pub name: String,
    pub version: String,
    pub license: Option<String>,
    pub manifest_path: PathBuf,
    /// A member of the workspace rather than a dependency from elsewhere.
    pub is_ours: bool,
    pub dependencies: Vec<Dependency>,
}

pub struct Dependency {
    pub kind: DependencyKind,
    /// The folder of a path dependency; `None` for one from a registry.
    pub path: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DependencyKind {
    Normal,
    Build,
    Dev,
}

impl Workspace {
    pub fn load(root: &Path) -> Result<Workspace> {
        let args = ["metadata", "--format-version", "1", "--locked", "--all-features"];
        let output = cargo().args(args).current_dir(root).output().context("failed to start `cargo metadata`")?;
        if !output.status.success() {
            bail!("`cargo {}` ended with {}:\n{}", args.join(" "), output.status, String::from_utf8_lossy(&output.stderr).trim_end());
        }
        let metadata = serde_json::from_slice(&output.stdout).context("failed to read the output of `cargo metadata`")?;
        Workspace::from_metadata(&metadata)
    }

    pub fn from_metadata(metadata: &Value) -> Result<Workspace> {
        let members = list(metadata, "workspace_members")?;
        let packages = list(metadata, "packages")?.iter().map(|package| Package::from_metadata(package, members));
        Ok(Workspace { root: text(metadata, "workspace_root")?.into(), packages: packages.collect::<Result<_>>()? })
    }

    pub fn ours(&self) -> impl Iterator<Item = &Package> {
        self.packages.iter().filter(|package| package.is_ours)
    }

    pub fn theirs(&self) -> impl Iterator<Item = &Package> {
        self.packages.iter().filter(|package| !package.is_ours)
    }
}

impl Package {
    fn from_metadata(package: &Value, members: &[Value]) -> Result<Package> {
        Ok(Package {
            name: text(package, "name")?.to_owned(),
            version: text(package, "version")?.to_owned(),
            license: package["license"].as_str().map(str::to_owned),
            manifest_path: text(package, "manifest_path")?.into(),
            is_ours: members.contains(&package["id"]),
            dependencies: list(package, "dependencies")?.iter().map(Dependency::from_metadata).collect::<Result<_>>()?,
        })
    }

    pub fn folder(&self) -> &Path {
        self.manifest_path.parent().expect("a manifest is a file in a folder")
    }
}

impl Dependency {
    fn from_metadata(dependency: &Value) -> Result<Dependency> {
        let kind = match dependency["kind"].as_str() {
            None => DependencyKind::Normal,
            Some("build") => DependencyKind::Build,
            Some("dev") => DependencyKind::Dev,
            Some(other) => bail!("`cargo metadata` has a dependency of the unknown kind `{other}`"),
        };
        Ok(Dependency { kind, path: dependency["path"].as_str().map(PathBuf::from) })
    }
}

/// The cargo that runs this program, so that its children use the same toolchain. It is not told of this crate what `cargo run` tells: build
/// scripts that look at it (ring's) would run again after every call of cargo by hand, and whatever uses them be compiled again.
pub fn cargo() -> Command {
    let mut command = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()));
    for (name, _) in std::env::vars_os().filter(|(name, _)| is_of_this_crate(&name.to_string_lossy())) {
        command.env_remove(name);
    }
    command
}

fn is_of_this_crate(name: &str) -> bool {
    ["CARGO_MANIFEST_", "CARGO_PKG_"].iter().any(|of_crate| name.starts_with(of_crate))
}

fn text<'a>(value: &'a Value, key: &str) -> Result<&'a str> {
    value[key].as_str().with_context(|| format!("`cargo metadata` lacks the text `{key}`"))
}

fn list<'a>(value: &'a Value, key: &str) -> Result<&'a [Value]> {
    value[key].as_array().map(Vec::as_slice).with_context(|| format!("`cargo metadata` lacks the list `{key}`"))
}

#[cfg(test)]
pub mod tests {
    use serde_json::json;

    use super::*;

    /// The folder of the crate that is used, and the kind as cargo spells it.
    pub type Edge<'a> = (&'a str, Option<&'a str>);

    /// A made-up workspace at /w of crates of ours, each a folder under /w/crates with what it uses.
    pub fn workspace(crates: &[(&str, &[Edge<'_>])]) -> Workspace {
        let packages: Vec<_> = crates
            .iter()
            .map(|(folder, dependencies)| {
                let dependencies = dependencies.iter().map(|(to, kind)| json!({"kind": kind, "path": format!("/w/crates/{to}")}));
                json!({
                    "id": folder, "name": folder, "version": "0.1.0", "license": "Apache-2.0",
                    "manifest_path": format!("/w/crates/{folder}/Cargo.toml"),
                    "dependencies": dependencies.collect::<Vec<_>>(),
                })
            })
            .collect();
        let members: Vec<_> = crates.iter().map(|(folder, _)| folder).collect();
        Workspace::from_metadata(&json!({"workspace_root": "/w", "workspace_members": members, "packages": packages})).unwrap()
    }

    #[test]
    fn this_workspace_is_read_with_its_crates_and_their_dependencies() {
        let workspace = Workspace::load(&crate::root()).unwrap();
        let own = workspace.ours().find(|package| package.name == "xtask").unwrap();
        assert_eq!(own.folder(), workspace.root.join("crates/xtask"));
        assert!(workspace.theirs().any(|package| package.name == "serde_json"));
    }

    #[test]
    fn cargo_is_not_told_of_this_crate() {
        assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some(), "cargo tells its tests");
        let removed: Vec<_> = cargo().get_envs().map(|(name, value)| (name.to_owned(), value.is_none())).collect();
        assert!(
            removed.contains(&("CARGO_MANIFEST_DIR".into(), true)) && removed.contains(&("CARGO_PKG_NAME".into(), true)),
            "{removed:?}"
        );
        assert!(!is_of_this_crate("CARGO_HOME") && !is_of_this_crate("CARGO_TARGET_DIR"));
    }

    #[test]
    fn metadata_of_another_shape_is_an_error_that_names_the_key() {
        let error = Workspace::from_metadata(&json!({"workspace_members": []})).map(|_| ()).unwrap_err();
        assert!(error.to_string().contains("`packages`"), "{error}");
    }
}
