//! Every crate of ours takes the workspace's lints and its licence; a crate that forgets the lints is silently exempt.

use std::fs;

use anyhow::{Context, Result};

use crate::workspace::Workspace;

const LICENCE: &str = "Apache-2.0";

pub fn check(workspace: &Workspace) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    for package in workspace.ours() {
        let path = &package.manifest_path;
        let manifest = fs::read_to_string(path).with_context(|| format!("failed to read {}", path.display()))?;
        let shown = path.strip_prefix(&workspace.root).unwrap_or(path).display();
        problems.extend(problems_of(&manifest, package.license.as_deref()).iter().map(|problem| format!("{shown} {problem}")));
    }
    Ok(problems)
}

/// `license` comes from the metadata, where inheritance is already resolved; that of lints shows in the text alone.
fn problems_of(manifest: &str, license: Option<&str>) -> Vec<String> {
    let mut problems = Vec::new();
    if !inherits_lints(manifest) {
        problems.push("lacks `workspace = true` under [lints]".to_owned());
    }
    if license != Some(LICENCE) {
        problems.push(format!("must be under {LICENCE}: `license.workspace = true`"));
    }
    problems
}

fn inherits_lints(manifest: &str) -> bool {
    let mut section = "";
    for line in manifest.lines() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.starts_with('[') {
            section = line;
        } else if let Some((key, value)) = line.split_once('=')
            && value.trim() == "true"
            && matches!((section, key.trim()), ("[lints]", "workspace") | ("", "lints.workspace"))
        {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lints_are_inherited_under_their_own_section() {
        assert!(inherits_lints("[package]\nname = \"a\"\n\n[lints]\nworkspace = true # all of them\n"));
        assert!(inherits_lints("lints.workspace = true\n[package]\nname = \"a\"\n"));
    }

    #[test]
    fn a_crate_without_the_lints_is_a_problem() {
        for manifest in [
            "[package]\nname = \"a\"\n",
            "[package]\nversion.workspace = true\n",
            "[lints]\n# workspace = true\n",
            "[lints]\nworkspace = false\n",
            "[lints.rust]\nworkspace = true\n",
            "[lints]\n[dependencies]\nworkspace = true\n",
        ] {
            assert_eq!(problems_of(manifest, Some("Apache-2.0")), ["lacks `workspace = true` under [lints]"], "{manifest}");
        }
    }

    #[test]
    fn a_crate_under_another_licence_or_none_is_a_problem() {
        let manifest = "[lints]\nworkspace = true\n";
        assert_eq!(problems_of(manifest, Some("Apache-2.0")), [""; 0]);
        assert_eq!(problems_of(manifest, Some("MIT")).len(), 1);
        assert_eq!(problems_of(manifest, None).len(), 1);
    }
}
