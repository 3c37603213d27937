//! What must hold of the source files themselves.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use everleaf_pmem::undeclared_sites;

use crate::{fptree, masstree, nvtree, sorted};

const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src");

#[test]
fn every_barrier_is_declared_once_and_is_in_the_list_of_its_tree() {
    let lists = [
        fptree::sites(fptree::Variant::FpTree),
        fptree::sites(fptree::Variant::Concurrent),
        sorted::sites(sorted::Variant::CircTree),
        sorted::sites(sorted::Variant::FastFair),
        masstree::SITES,
        nvtree::sites(nvtree::Variant::Serial),
    ];
    assert_eq!(undeclared_sites(Path::new(SOURCES), &lists).unwrap(), Vec::<String>::new());
}

/// A module's path from the root of the crate.
type ModulePath = Vec<String>;

/// The text of every module but tests, without comments.
fn modules() -> BTreeMap<ModulePath, String> {
    fn collect(folder: &Path, path: &[String], found: &mut BTreeMap<ModulePath, String>) {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let name = entry.path().file_stem().unwrap().to_str().unwrap().to_owned();
            let mut path = path.to_vec();
            if name == "tests" {
                continue;
            }
            if !["mod", "lib"].contains(&name.as_str()) {
                path.push(name);
            }
            if entry.path().is_dir() {
                collect(&entry.path(), &path, found);
            } else {
                let text = fs::read_to_string(entry.path()).unwrap();
                let text = text.split("mod tests {").next().unwrap_or_default();
                let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
                found.insert(path, code.collect::<Vec<_>>().join("\n"));
            }
        }
    }
    let mut found = BTreeMap::new();
    collect(Path::new(SOURCES), &[], &mut found);
    found
}

/// The modules that a module names, by their paths.
fn imports(module: &[String], is_folder: bool, code: &str) -> Vec<ModulePath> {
    let mut found = Vec::new();
    for (keyword, start) in [("super::", Some(module)), ("crate::", None)] {
        for (at, _) in code.match_indices(keyword) {
            let begins = !code[..at].ends_with("::") && !code[..at].ends_with('(');
            if !begins && keyword == "super::" {
                continue; // The second of two, or a visibility.
            }
            let mut path = start.unwrap_or_default().to_vec();
            let mut rest = &code[at..];
            while let Some(behind) = rest.strip_prefix("super::") {
                path.pop();
                rest = behind;
            }
            rest = rest.strip_prefix("crate::").unwrap_or(rest);
            let list = match rest.strip_prefix('{') {
                Some(list) => list.split('}').next().unwrap_or_default().split(',').collect(),
                None => vec![rest],
            };
            for name in list {
                let is_part = |c: &char| c.is_alphanumeric() || *c == '_' || *c == ':';
                let name: String = name.trim().chars().take_while(is_part).collect();
                let parts = name.split("::").filter(|part| !part.is_empty()).map(str::to_owned);
                found.push(path.iter().cloned().chain(parts).collect());
            }
        }
    }
    if is_folder {
        found.retain(|path: &ModulePath| !path.starts_with(module)); // Its own files.
    }
    found
}

#[test]
fn no_two_files_of_a_folder_import_each_other_in_a_circle() {
    let modules = modules();
    let is_folder = |path: &[String]| {
        modules.keys().any(|other| other.len() > path.len() && other.starts_with(path))
    };
    // Of each folder: which of its files imports which.
    let mut edges: BTreeMap<ModulePath, BTreeSet<(String, String)>> = BTreeMap::new();
    for (module, code) in &modules {
        for import in imports(module, is_folder(module), code) {
            let common = module.iter().zip(&import).take_while(|(a, b)| a == b).count();
            let (Some(from), Some(to)) = (module.get(common), import.get(common)) else { continue };
            let folder = module[..common].to_vec();
            if modules.keys().any(|known| known.starts_with(&import[..=common])) {
                edges.entry(folder).or_default().insert((from.clone(), to.clone()));
            }
        }
    }
    let count: usize = edges.values().map(BTreeSet::len).sum();
    assert!(count > 100, "only {count} imports were found");
    for (folder, mut edges) in edges {
        // A file that imports no other that is left is in no circle.
        loop {
            let importing: BTreeSet<String> = edges.iter().map(|edge| edge.0.clone()).collect();
            let before = edges.len();
            edges.retain(|(_, to)| importing.contains(to));
            if edges.len() == before {
                break;
            }
        }
        assert!(edges.is_empty(), "in {folder:?} there is a circle among {edges:?}");
    }
}

#[test]
fn layouts_import_nothing_of_their_family() {
    for (module, code) in modules() {
        if module.last().is_some_and(|name| name == "layout") {
            let mut imports = imports(&module, false, &code);
            imports.retain(|import| import.first() == module.first());
            assert_eq!(imports, Vec::<ModulePath>::new(), "{module:?}");
        }
    }
}
