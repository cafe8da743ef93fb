//! Every relative link in a Markdown file that git tracks leads to a file or folder of this repository.
//!
//! Addresses elsewhere and anchors are not checked.

use std::{
    fs,
    path::{Component, Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};

use super::markdown;
use crate::workspace::Workspace;

pub fn check(workspace: &Workspace) -> Result<Vec<String>> {
    let root = &workspace.root;
    let mut problems = Vec::new();
    for file in tracked_markdown(root)? {
        let path = root.join(&file);
        // Git still lists a file that is deleted but not yet staged.
        if !path.exists() {
            continue;
        }
        let markdown = fs::read_to_string(&path).with_context(|| format!("failed to read {}", path.display()))?;
        let exists = |target: &Path| root.join(target).exists();
        problems.extend(broken_links(&file, &markdown, &exists));
    }
    Ok(problems)
}

fn tracked_markdown(root: &Path) -> Result<Vec<PathBuf>> {
    let mut command = Command::new("git");
    let output = command.args(["ls-files", "-z", "--", "*.md"]).current_dir(root).output().context("failed to start `git ls-files`")?;
    if !output.status.success() {
        bail!("`git ls-files` ended with {}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim_end());
    }
    let names = String::from_utf8(output.stdout).context("the name of a Markdown file is not UTF-8")?;
    Ok(names.split_terminator('\0').map(PathBuf::from).collect())
}

/// `file` and what `exists` is asked about are relative to the root of the repository.
fn broken_links(file: &Path, markdown: &str, exists: &dyn Fn(&Path) -> bool) -> Vec<String> {
    let mut problems = Vec::new();
    for (line_number, link) in markdown::links(markdown) {
        let Some(target) = relative_target(&link) else { continue };
        let problem = match resolve(file, &target) {
            None => "leaves the repository",
            Some(path) if !exists(&path) => "leads to no file",
            Some(_) => continue,
        };
        problems.push(format!("{}:{line_number}: the link `{link}` {problem}", file.display()));
    }
    problems
}

/// The path of a link into this repository, without anchor and percent signs; `None` for other links.
fn relative_target(link: &str) -> Option<String> {
    let has_scheme = link.split_once(':').is_some_and(|(scheme, _)| scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c)));
    let path = link.split(['#', '?']).next().unwrap_or_default();
    (!has_scheme && !link.starts_with("//") && !path.is_empty()).then(|| percent_decoded(path))
}

fn percent_decoded(path: &str) -> String {
    let mut pieces = path.split('%');
    let mut bytes = pieces.next().unwrap_or_default().as_bytes().to_vec();
    for piece in pieces {
        match piece.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                bytes.extend_from_slice(&piece.as_bytes()[2..]);
            }
            None => bytes.extend_from_slice(format!("%{piece}").as_bytes()),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Relative to the folder of `file`, or, with a leading slash, to the root; `None` if it climbs out of the repository.
fn resolve(file: &Path, target: &str) -> Option<PathBuf> {
    let base = if target.starts_with('/') { Path::new("") } else { file.parent().unwrap_or(Path::new("")) };
    let mut resolved = PathBuf::new();
    for component in base.join(target.trim_start_matches('/')).components() {
        match component {
            Component::Normal(name) => resolved.push(name),
            Component::ParentDir => resolved.pop().then_some(())?,
            _ => {}
        }
    }
    Some(resolved)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In a repository that holds docs/here.md, where `markdown` stands, docs/there (1).md, LICENSE and the folder docs/adr.
    fn broken(markdown: &str) -> Vec<String> {
        let files = ["docs/here.md", "docs/there (1).md", "LICENSE", "docs/adr", ""];
        broken_links(Path::new("docs/here.md"), markdown, &|path| files.iter().any(|file| path == Path::new(file)))
    }

    #[test]
    fn a_link_to_no_file_is_reported_with_its_line() {
        assert_eq!(broken("first\nsee [it](gone.md) now"), ["docs/here.md:2: the link `gone.md` leads to no file"]);
        assert_eq!(broken("[a](/gone.md) [b](here.md/gone) [c](gone.md#part) [d](here.md)").len(), 3);
    }

    #[test]
    fn links_that_lead_somewhere_pass() {
        for markdown in [
            "[a](here.md)",
            "[a](./here.md#part)",
            "[a](../LICENSE)",
            "[a](/LICENSE)",
            "[a](adr/)",
            "[a](..)",
            "[a](there%20(1).md)",
            "[a](<there (1).md>)",
        ] {
            assert_eq!(broken(markdown), [""; 0], "{markdown}");
        }
    }

    #[test]
    fn links_elsewhere_and_anchors_are_left_alone() {
        for markdown in ["[a](https://example.org/x)", "[a](mailto:a@example.org)", "[a](#part)", "[a](//example.org)"] {
            assert_eq!(broken(markdown), [""; 0], "{markdown}");
        }
    }

    #[test]
    fn a_link_out_of_the_repository_is_reported() {
        assert_eq!(broken("[a](../../other/file.md)"), ["docs/here.md:1: the link `../../other/file.md` leaves the repository"]);
    }
}
