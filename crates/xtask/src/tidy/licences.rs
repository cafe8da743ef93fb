//! Every dependency may be used under a licence that asks no more of a user of Dunlin than to keep a notice.

use anyhow::Result;

use super::spdx;
use crate::workspace::{Package, Workspace};

const ALLOWED: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BlueOak-1.0.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Licences allowed for one dependency, as (package, licence). For those that bind only its own files, such as MPL-2.0,
/// once someone has looked at how the dependency is used.
const ALLOWED_FOR_ONE: &[(&str, &str)] = &[];

pub fn check(workspace: &Workspace) -> Result<Vec<String>> {
    Ok(workspace.theirs().filter_map(|package| problem(package, ALLOWED_FOR_ONE)).collect())
}

fn problem(package: &Package, allowed_for_one: &[(&str, &str)]) -> Option<String> {
    let Package { name, version, .. } = package;
    let Some(license) = package.license.as_deref().filter(|license| !license.trim().is_empty()) else {
        return Some(format!("{name} {version} names no licence"));
    };
    let is_allowed = |licence: &str| {
        let for_one = allowed_for_one.iter().filter(|(package, _)| package == name).map(|(_, licence)| *licence);
        ALLOWED.iter().copied().chain(for_one).any(|allowed| allowed.eq_ignore_ascii_case(licence))
    };
    match spdx::is_satisfied(license, &is_allowed) {
        Ok(true) => None,
        Ok(false) => {
            Some(format!("{name} {version} is under `{license}`, which ALLOWED in crates/xtask/src/tidy/licences.rs does not permit"))
        }
        Err(error) => Some(format!("{name} {version} has the licence `{license}`, which cannot be read: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn workspace(license: Option<&str>) -> Workspace {
        let package = json!({
            "id": "dep", "name": "dep", "version": "1.2.3", "license": license,
            "manifest_path": "/registry/dep/Cargo.toml", "dependencies": [],
        });
        Workspace::from_metadata(&json!({"workspace_root": "/w", "workspace_members": [], "packages": [package]})).unwrap()
    }

    fn problems(license: Option<&str>) -> String {
        check(&workspace(license)).unwrap().join("\n")
    }

    #[test]
    fn permissive_licences_pass() {
        for license in ["MIT OR Apache-2.0", "MIT/Apache-2.0", "(MIT OR Apache-2.0) AND Unicode-3.0", "MIT OR LGPL-2.1-or-later"] {
            assert_eq!(problems(Some(license)), "", "{license}");
        }
    }

    #[test]
    fn other_licences_are_reported_with_the_package() {
        for license in ["GPL-3.0-only", "MIT AND GPL-3.0-only", "MPL-2.0", "SSPL-1.0", "GPL-2.0 WITH LLVM-exception"] {
            let expected = format!("dep 1.2.3 is under `{license}`, which ALLOWED in {} does not permit", file!());
            assert_eq!(problems(Some(license)), expected);
        }
    }

    #[test]
    fn a_dependency_without_a_licence_is_an_error() {
        assert_eq!(problems(None), "dep 1.2.3 names no licence");
        assert_eq!(problems(Some(" ")), "dep 1.2.3 names no licence");
    }

    #[test]
    fn a_licence_that_cannot_be_read_is_an_error() {
        assert!(problems(Some("MIT OR")).contains("cannot be read"));
    }

    #[test]
    fn an_exception_holds_for_one_package() {
        let workspace = workspace(Some("MPL-2.0"));
        assert_eq!(problem(&workspace.packages[0], &[("dep", "MPL-2.0")]), None);
        assert!(problem(&workspace.packages[0], &[("other", "MPL-2.0")]).is_some());
    }
}
