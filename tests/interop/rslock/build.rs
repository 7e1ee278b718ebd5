// SPDX-License-Identifier: BSD-2-Clause

//! Tells the program which rslock was built into it, as cargo has resolved it.
fn main() {
    let lock = std::fs::read_to_string("Cargo.lock").unwrap_or_default();
    let version = lock
        .split("[[package]]")
        .find(|package| package.contains("name = \"rslock\""))
        .and_then(|package| package.split("version = \"").nth(1))
        .and_then(|rest| rest.split('"').next())
        .unwrap_or("?");
    println!("cargo:rustc-env=RSLOCK_VERSION={version}");
    println!("cargo:rerun-if-changed=Cargo.lock");
}
