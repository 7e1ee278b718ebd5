// SPDX-License-Identifier: BSD-2-Clause

//! Finds libredlock: by pkg-config, or in the directory that LIBREDLOCK_DIR names.
use std::{env, path::Path, process};

const LEAST: &str = "0.1.0";

/// An archive that contains what it needs, beside the C library.
fn link_archive(folder: &str) -> Result<(), String> {
    let archive = Path::new(folder).join("lib/libredlock.a");
    if !archive.is_file() {
        return Err(format!(
            "LIBREDLOCK_DIR is {folder}, and {} is not there",
            archive.display()
        ));
    }
    println!("cargo:rustc-link-search=native={folder}/lib");
    println!("cargo:rustc-link-lib=static=redlock");
    println!("cargo:rustc-link-lib=pthread");
    println!("cargo:rustc-link-lib=dl");
    println!("cargo:include={folder}/include");
    Ok(())
}

fn find() -> Result<(), String> {
    let folder = env::var("LIBREDLOCK_DIR").ok();
    if env::var_os("CARGO_FEATURE_VENDORED").is_some() {
        return match folder {
            Some(folder) => link_archive(&folder),
            None => Err(
                "the feature `vendored` needs LIBREDLOCK_DIR, a directory with lib/libredlock.a"
                    .into(),
            ),
        };
    }
    let wants_archive = env::var("REDLOCK_LINK").is_ok_and(|kind| kind == "static");
    match pkg_config::Config::new().atleast_version(LEAST).statik(wants_archive).probe("redlock") {
        Ok(_) => Ok(()),
        Err(_) if folder.is_some() => link_archive(&folder.unwrap()),
        Err(error) => Err(format!(
            "libredlock is not there: install the package libredlock-dev, or name the directory of redlock.pc \
             in PKG_CONFIG_PATH, or that of lib/libredlock.a in LIBREDLOCK_DIR\n{error}"
        )),
    }
}

fn main() {
    for name in ["LIBREDLOCK_DIR", "REDLOCK_LINK"] {
        println!("cargo:rerun-if-env-changed={name}");
    }
    if env::var_os("DOCS_RS").is_some() {
        return;
    }
    if let Err(why) = find() {
        eprintln!("libredlock-sys: {why}");
        process::exit(1);
    }
}
