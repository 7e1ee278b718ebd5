// SPDX-License-Identifier: BSD-2-Clause

//! The functions, structs, enumerations and constants of `redlock.h`, `redlock/metrics.h`,
//! `redlock/admin.h` and `redlock/fence.h`, as the C compiler sees them. The headers document them.
//! Programs use the crate `libredlock`, which is safe.
//!
//! The library is found by pkg-config (`redlock`); with `REDLOCK_LINK=static` its archive is linked.
//! With the feature `vendored`, or where pkg-config finds nothing, `LIBREDLOCK_DIR` names a directory
//! with `lib/libredlock.a`, an archive that contains what it needs.
#![no_std]
#![allow(non_camel_case_types)]

#[rustfmt::skip]
mod abi;
pub use abi::*;
