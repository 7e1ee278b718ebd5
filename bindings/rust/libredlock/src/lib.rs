// SPDX-License-Identifier: BSD-2-Clause

//! Distributed locks held on a majority of independent Redis or Valkey servers.
//!
//! ```no_run
//! use std::time::Duration;
//! use libredlock::Client;
//!
//! # fn main() -> libredlock::Result<()> {
//! let client = Client::open("redis://db1,redis://db2,redis://db3")?;
//! let lock = client.lock("nightly").ttl(Duration::from_secs(30)).acquire()?;
//! println!("fence {:?}, valid for {:?}", lock.fence(), lock.validity());
//! lock.ensure()?; // before each step: is it still ours?
//! lock.release()?; // or drop it
//! # Ok(()) }
//! ```
//!
//! A lock renews itself until it is released or lost. With the feature `tokio`,
//! [`Client::open_async`] opens a client whose locks are awaited:
//!
//! ```no_run
//! # #[cfg(feature = "tokio")] mod tasks {
//! # use libredlock::Client;
//! # async fn backup() {}
//! # async fn run() -> libredlock::Result<()> {
//! let client = Client::open_async("redis://db1,redis://db2,redis://db3")?;
//! let lock = client.lock("nightly").acquire().await?;
//! tokio::select! {
//!     () = backup() => lock.release().await,
//!     lost = lock.lost() => Err(lost),
//! }
//! # } }
//! ```
//!
//! A client does not work in a child after fork(2) (`ErrorKind::Forked`): open one there.
#![warn(missing_docs)]

mod callback;
mod client;
mod error;
mod leader;
mod lock;
#[cfg(feature = "tokio")]
mod tasks;

pub use client::{Client, ClientOptions, Mode};
pub use error::{Error, ErrorKind, Result};
pub use leader::{Leader, Observer};
pub use lock::{Lock, LockBuilder};
#[cfg(feature = "tokio")]
pub use tasks::{AsyncClient, AsyncLock, AsyncObserver, Tasks};

/// The mode of clients and locks whose calls block.
#[derive(Debug)]
pub enum Blocking {}

/// The version of the library at run time.
pub fn version() -> &'static str {
    // SAFETY: the text is static and never NULL.
    let version = unsafe { std::ffi::CStr::from_ptr(libredlock_sys::redlock_version()) };
    version.to_str().unwrap_or_default()
}
