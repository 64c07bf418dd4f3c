// SPDX-License-Identifier: MIT
//! Compiles the engine, the pools and binding.c into one static library.
//!
//! The C sources are those of the project: in its checkout they lie two folders up; in a crate that
//! scripts/dev/crate has assembled, in `c`. Flags are those of CMakeLists.txt.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

/// Folders of `pools` that are no part of the library.
const OTHERS: [&str; 3] = ["engine", "examples", "rust"];

/// What libpoolshim-pools starts its pages with; here the engine does: binding.c.
const OTHER_START: &str = "pages/alone.c";

fn entries(folder: &Path) -> Vec<PathBuf> {
    let read = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<PathBuf> = read.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    paths
}

fn folders(parent: &Path) -> Vec<PathBuf> {
    let mut paths = entries(parent);
    paths.retain(|path| path.is_dir());
    paths
}

fn is_c(path: &Path) -> bool {
    path.extension().map_or(false, |suffix| suffix == "c")
}

fn check_target() {
    let of = |name: &str| env::var(name).unwrap_or_default();
    let processor = of("CARGO_CFG_TARGET_ARCH");
    let is_known = processor == "x86_64" || processor == "aarch64";
    if of("CARGO_CFG_TARGET_OS") != "linux" || !is_known {
        panic!(
            "poolshim is for Linux on x86-64 and 64-bit ARM, not for {}",
            of("TARGET")
        );
    }
}

fn main() {
    check_target();
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let assembled = here.join("c");
    let root = if assembled.is_dir() {
        assembled
    } else {
        here.join("../..")
    };
    let pools = root.join("pools");
    if !pools.join("engine").is_dir() {
        panic!("poolshim: no C sources in c/ or ../..; scripts/dev/crate assembles the crate");
    }

    let mut sources = vec![pools.join("rust/native/binding.c")];
    let mut watched = vec![
        pools.join("rust/native"),
        pools.join("engine"),
        pools.join("include"),
    ];
    for layer in folders(&pools.join("engine")) {
        sources.extend(entries(&layer).into_iter().filter(|path| is_c(path)));
    }
    for family in folders(&pools) {
        if OTHERS.iter().any(|name| family.ends_with(name)) {
            continue;
        }
        let files = entries(&family).into_iter();
        sources.extend(files.filter(|path| is_c(path) && !path.ends_with(OTHER_START)));
        watched.push(family);
    }
    for path in watched {
        println!("cargo:rerun-if-changed={}", path.display());
    }

    let mut build = cc::Build::new();
    build
        .files(sources)
        .include(&root)
        .include(pools.join("include"));
    build
        .define("_GNU_SOURCE", None)
        .std("gnu11")
        .warnings(false);
    for flag in [
        "-fvisibility=hidden",
        "-ftls-model=initial-exec",
        "-fexceptions",
    ] {
        build.flag(flag);
    }
    for name in ["malloc", "calloc", "realloc", "free"] {
        build.flag(format!("-fno-builtin-{name}"));
    }
    build.compile("poolshim_native");
}
