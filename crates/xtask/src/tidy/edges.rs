//! Which of our crates may name which: inner rings never name outer ones, and adapters never one another.

use anyhow::Result;

use crate::workspace::{DependencyKind, Package, Workspace};

/// Folders below crates/; `adapters/*` is every adapter.
struct Rule {
    from: &'static str,
    /// For the crate itself and its build script.
    may_use: &'static [&'static str],
    /// For its tests, besides.
    tests_may_use: &'static [&'static str],
}

const ANYTHING: &[&str] = &["*"];

const RULES: &[Rule] = &[
    Rule { from: "model", may_use: &[], tests_may_use: &[] },
    Rule { from: "ports", may_use: &["model"], tests_may_use: &[] },
    Rule { from: "contract", may_use: &["model", "ports"], tests_may_use: &[] },
    Rule { from: "app", may_use: &["model", "ports"], tests_may_use: &["contract"] },
    Rule { from: "protocol", may_use: &["model"], tests_may_use: &[] },
    Rule { from: "api", may_use: &["app", "model", "protocol"], tests_may_use: &[] },
    Rule { from: "adapters/*", may_use: &["model", "ports"], tests_may_use: &["contract"] },
    Rule { from: "client", may_use: &["protocol"], tests_may_use: &[] },
    Rule { from: "bench", may_use: &["app", "model", "ports", "client"], tests_may_use: &[] },
    Rule { from: "dunlin", may_use: ANYTHING, tests_may_use: &[] },
    Rule { from: "xtask", may_use: &[], tests_may_use: &[] },
];

pub fn check(workspace: &Workspace) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    for package in workspace.ours() {
        let from = place(workspace, package);
        let Some(rule) = RULES.iter().find(|rule| matches(rule.from, &from)) else {
            problems.push(format!("crate `{from}` has no rule; say what it may use in RULES in crates/xtask/src/tidy/edges.rs"));
            continue;
        };
        for (to, kind) in edges(workspace, package) {
            let is_allowed = |to_any_of: &[&str]| to_any_of.iter().any(|pattern| matches(pattern, &to));
            let is_for_tests = kind == DependencyKind::Dev;
            if is_allowed(rule.may_use) || is_for_tests && is_allowed(rule.tests_may_use) {
                continue;
            }
            let section = match kind {
                DependencyKind::Normal => "dependencies",
                DependencyKind::Build => "build-dependencies",
                DependencyKind::Dev => "dev-dependencies",
            };
            problems.push(format!("`{from}` must not use `{to}`, which its Cargo.toml names under [{section}]"));
        }
    }
    Ok(problems)
}

/// To whichever of our crates the manifest names, optional or for one platform alike.
fn edges(workspace: &Workspace, package: &Package) -> Vec<(String, DependencyKind)> {
    let mut edges = Vec::new();
    for dependency in &package.dependencies {
        let Some(path) = &dependency.path else { continue };
        let Some(to) = workspace.ours().find(|other| other.folder() == path) else { continue };
        edges.push((place(workspace, to), dependency.kind));
    }
    edges
}

/// The folder by which RULES knows a crate, such as `adapters/embedded`. Names of packages play no part.
fn place(workspace: &Workspace, package: &Package) -> String {
    let folder = package.folder().strip_prefix(&workspace.root).unwrap_or(package.folder());
    folder.strip_prefix("crates").unwrap_or(folder).display().to_string()
}

fn matches(pattern: &str, place: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => place.starts_with(prefix),
        None => pattern == place,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::tests::workspace;

    const NORMAL: Option<&str> = None;
    const BUILD: Option<&str> = Some("build");
    const DEV: Option<&str> = Some("dev");

    /// What is wrong with `from` using `to`.
    fn problems(from: &str, to: &str, kind: Option<&str>) -> Vec<String> {
        check(&workspace(&[(from, &[(to, kind)]), (to, &[])])).unwrap()
    }

    #[test]
    fn inner_rings_never_name_outer_ones() {
        for (from, to) in [
            ("model", "ports"),
            ("ports", "app"),
            ("contract", "app"),
            ("app", "adapters/embedded"),
            ("app", "api"),
            ("app", "contract"),
            ("api", "ports"),
            ("api", "adapters/embedded"),
            ("adapters/embedded", "app"),
            ("adapters/embedded", "contract"),
            ("bench", "adapters/embedded"),
            ("client", "app"),
            ("xtask", "model"),
        ] {
            for kind in [NORMAL, BUILD] {
                assert_eq!(problems(from, to, kind).len(), 1, "{from} -> {to}");
            }
        }
    }

    #[test]
    fn adapters_never_name_one_another() {
        for kind in [NORMAL, BUILD, DEV] {
            assert_eq!(problems("adapters/kafka", "adapters/embedded", kind).len(), 1);
        }
    }

    #[test]
    fn the_layout_is_allowed() {
        for (from, to) in [
            ("ports", "model"),
            ("contract", "ports"),
            ("app", "ports"),
            ("api", "app"),
            ("api", "protocol"),
            ("adapters/embedded", "ports"),
            ("bench", "client"),
            ("dunlin", "adapters/embedded"),
            ("dunlin", "api"),
        ] {
            for kind in [NORMAL, DEV] {
                assert_eq!(problems(from, to, kind), [""; 0], "{from} -> {to}");
            }
        }
    }

    #[test]
    fn tests_of_adapters_and_app_may_use_the_contract_and_no_more() {
        assert_eq!(problems("adapters/embedded", "contract", DEV), [""; 0]);
        assert_eq!(problems("app", "contract", DEV), [""; 0]);
        assert_eq!(problems("model", "contract", DEV).len(), 1);
        assert_eq!(problems("app", "adapters/embedded", DEV).len(), 1);
    }

    #[test]
    fn a_problem_names_both_crates_and_the_section() {
        let expected = "`app` must not use `adapters/embedded`, which its Cargo.toml names under [dev-dependencies]";
        assert_eq!(problems("app", "adapters/embedded", DEV), [expected]);
    }

    #[test]
    fn a_crate_without_a_rule_is_told_where_to_get_one() {
        for newcomer in ["search", "adapters", "modelling"] {
            let problems = check(&workspace(&[(newcomer, &[])])).unwrap();
            assert_eq!(problems.len(), 1, "{newcomer}");
            assert!(problems[0].contains(newcomer) && problems[0].contains(file!()), "{problems:?}");
        }
    }
}
