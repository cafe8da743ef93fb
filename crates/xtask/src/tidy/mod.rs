//! `cargo xtask tidy`: what must hold in this repository and the compiler does not check.
//!
//! A check is a module with a function `check`, which returns a sentence for each thing that is wrong.

use std::path::Path;

use anyhow::{Result, bail};

use crate::workspace::Workspace;

mod edges;
mod licences;
mod links;
mod manifests;
mod markdown;
mod spdx;

type Check = fn(&Workspace) -> Result<Vec<String>>;

const CHECKS: [(&str, Check); 4] =
    [("edges", edges::check), ("licences", licences::check), ("manifests", manifests::check), ("links", links::check)];

/// Runs every check before it fails, so that one run shows all there is to repair.
pub fn run(root: &Path) -> Result<()> {
    let workspace = Workspace::load(root)?;
    let mut count = 0;
    for (name, check) in CHECKS {
        let problems = check(&workspace)?;
        if problems.is_empty() {
            eprintln!("    {name}: nothing wrong");
        }
        for problem in &problems {
            eprintln!("    {name}: {problem}");
        }
        count += problems.len();
    }
    match count {
        0 => Ok(()),
        1 => bail!("tidy found 1 problem"),
        _ => bail!("tidy found {count} problems"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `cargo test` alone must catch a forbidden crate edge, without `cargo xtask tidy`.
    #[test]
    fn this_workspace_is_tidy() {
        let workspace = Workspace::load(&crate::root()).unwrap();
        for (name, check) in CHECKS {
            let problems = check(&workspace).unwrap();
            assert!(problems.is_empty(), "{name}:\n{}", problems.join("\n"));
        }
    }
}
