//! What the source files of a crate say of each other.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

/// A module's path from the root of its crate: `["chunks", "free"]`; the root is empty.
pub type ModulePath = Vec<String>;

/// The modules of a crate, by their paths, without comments and tests.
pub struct Sources(BTreeMap<ModulePath, String>);

impl Sources {
    /// Reads all modules below `folder`, a crate's `src`. Files and folders called `tests` are
    /// skipped, as is what follows `mod tests {`.
    ///
    /// # Errors
    /// What reading the files meets.
    pub fn read(folder: &Path) -> io::Result<Self> {
        let mut modules = BTreeMap::new();
        collect(folder, &[], &mut modules)?;
        Ok(Self(modules))
    }

    /// The paths of all modules.
    pub fn modules(&self) -> impl Iterator<Item = &ModulePath> {
        self.0.keys()
    }

    /// What a module names of its own crate by path, in `use` and elsewhere: modules, and what is
    /// in them. What the crate's root exports counts as the root's.
    pub fn imports(&self, module: &[String]) -> Vec<ModulePath> {
        let Some(code) = self.0.get(module) else { return Vec::new() };
        let from_here = |path: &String| absolute(module, path);
        let mut imports: Vec<ModulePath> = paths(code).iter().filter_map(from_here).collect();
        if self.is_folder(module) {
            imports.retain(|path| !path.starts_with(module)); // Its own files.
        }
        imports
    }

    /// Of each folder the files that import each other in a circle, each with what it imports of
    /// them; empty if there is none. A folder counts as one file of the folder above it.
    pub fn circles(&self) -> Vec<String> {
        let mut edges: BTreeMap<ModulePath, BTreeSet<(String, String)>> = BTreeMap::new();
        for module in self.0.keys() {
            for import in self.imports(module) {
                let common = module.iter().zip(&import).take_while(|(a, b)| a == b).count();
                let (Some(from), Some(to)) = (module.get(common), import.get(common)) else {
                    continue;
                };
                if self.0.keys().any(|known| known.starts_with(&import[..=common])) {
                    let folder = edges.entry(module[..common].to_vec()).or_default();
                    folder.insert((from.clone(), to.clone()));
                }
            }
        }
        edges.into_iter().flat_map(|(folder, edges)| describe(&folder, in_circles(edges))).collect()
    }

    fn is_folder(&self, module: &[String]) -> bool {
        self.0.keys().any(|other| other.len() > module.len() && other.starts_with(module))
    }
}

fn describe(folder: &[String], edges: BTreeSet<(String, String)>) -> Vec<String> {
    let folder = folder.join("/");
    edges.iter().map(|(from, to)| format!("{folder}: {from} imports {to}")).collect()
}

/// Those imports that are part of a circle, or lie between two.
fn in_circles(mut edges: BTreeSet<(String, String)>) -> BTreeSet<(String, String)> {
    loop {
        let before = edges.len();
        let importing: BTreeSet<String> = edges.iter().map(|(from, _)| from.clone()).collect();
        let imported: BTreeSet<String> = edges.iter().map(|(_, to)| to.clone()).collect();
        edges.retain(|(from, to)| importing.contains(to) && imported.contains(from));
        if edges.len() == before {
            return edges;
        }
    }
}

fn collect(
    folder: &Path,
    path: &[String],
    modules: &mut BTreeMap<ModulePath, String>,
) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let file = entry?.path();
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let mut path = path.to_vec();
        if name == "tests" {
            continue;
        }
        if !["mod", "lib", "main"].contains(&name.as_str()) {
            path.push(name);
        }
        if file.is_dir() {
            collect(&file, &path, modules)?;
        } else if file.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(file)?;
            let text = text.split("mod tests {").next().unwrap_or_default();
            let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
            modules.insert(path, code.collect::<Vec<_>>().join("\n"));
        }
    }
    Ok(())
}

/// Every path that the code names: those of `use`, their groups taken apart, and those that stand
/// elsewhere and begin with `crate`, `self` or `super`.
fn paths(code: &str) -> Vec<String> {
    let (mut found, mut elsewhere, mut rest) = (Vec::new(), String::new(), code);
    while let Some(at) = find_use(rest) {
        let (before, behind) = rest.split_at(at);
        elsewhere.push_str(before);
        let (tree, after) = behind["use ".len()..].split_once(';').unwrap_or((behind, ""));
        take_apart("", tree, &mut found);
        rest = after;
    }
    elsewhere.push_str(rest);
    for start in ["crate::", "super::", "self::"] {
        for (at, _) in elsewhere.match_indices(start) {
            let before = elsewhere[..at].chars().next_back();
            if before.is_none_or(|c| !is_part(c)) {
                found.push(elsewhere[at..].chars().take_while(|c| is_part(*c)).collect());
            }
        }
    }
    found
}

/// Where the next `use` begins that is a word of its own.
fn find_use(code: &str) -> Option<usize> {
    let is_word = |at: &usize| code[..*at].chars().next_back().is_none_or(char::is_whitespace);
    code.match_indices("use ").map(|(at, _)| at).find(is_word)
}

const fn is_part(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == ':'
}

/// The paths of a `use`: `a::{b, c::{d, e}}` names three.
fn take_apart(before: &str, tree: &str, found: &mut Vec<String>) {
    let tree = tree.trim();
    let Some((path, group)) = tree.split_once('{') else {
        let path = tree.split(" as ").next().unwrap_or_default();
        found.push(format!("{before}{}", path.trim()));
        return;
    };
    let group = group.trim_end().strip_suffix('}').unwrap_or(group);
    let (mut depth, mut start) = (0, 0);
    for (at, c) in group.char_indices().chain([(group.len(), ',')]) {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                if !group[start..at].trim().is_empty() {
                    take_apart(&format!("{before}{path}"), &group[start..at], found);
                }
                start = at + 1;
            }
            _ => {}
        }
    }
}

/// A path as seen from the root of the crate; none if it leads to another crate.
fn absolute(module: &[String], path: &str) -> Option<ModulePath> {
    let mut parts = path.split("::").filter(|part| !part.is_empty()).peekable();
    let mut from = match *parts.peek()? {
        "crate" => Vec::new(),
        "self" | "super" => module.to_vec(),
        _ => return None,
    };
    while let Some(part) = parts.next_if(|part| ["crate", "self", "super"].contains(part)) {
        if part == "super" {
            from.pop();
        }
    }
    from.extend(parts.map(str::to_owned));
    Some(from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources(files: &[(&str, &str)]) -> Sources {
        let module = |path: &str| path.split('/').map(str::to_owned).collect();
        Sources(files.iter().map(|(path, code)| (module(path), (*code).to_owned())).collect())
    }

    #[test]
    fn a_circle_is_found_in_use_in_groups_and_elsewhere() {
        let naming_b = [
            "use crate::b::Thing;",
            "pub(crate) use super::{std, b::{self, Other as Name}};",
            "fn f() -> crate::b::Thing {}",
            "fn f() { drop(crate::b::thing()) }",
        ];
        for a in naming_b {
            let circles = sources(&[("a", a), ("b", "use crate::a;"), ("c", a)]).circles();
            assert_eq!(circles, [": a imports b", ": b imports a"], "{a}");
            assert!(sources(&[("a", a), ("b", "use std::a;"), ("c", a)]).circles().is_empty());
        }
        let in_a_folder = sources(&[("f/a", "use super::b;"), ("f/b", "pub use crate::f::a::X;")]);
        assert_eq!(in_a_folder.circles(), ["f: a imports b", "f: b imports a"]);
        let across =
            sources(&[("f/a", "use crate::g::b;"), ("g/b", "use crate::f::Y;"), ("f", "")]);
        assert_eq!(across.circles(), [": f imports g", ": g imports f"]);
    }

    #[test]
    fn a_visibility_is_no_import_and_a_folder_may_name_its_files() {
        let own = [("f", "use self::a::X; fn g() { a::b() }"), ("f/a", "pub(super) fn b() {}")];
        assert!(sources(&own).circles().is_empty());
    }
}
