// SPDX-License-Identifier: BSD-2-Clause

//! Locks in tasks of tokio: the library's descriptor becomes readable when callbacks are due, and
//! one task runs them. The library's own thread goes on renewing.

use std::ffi::{c_int, c_void};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Arc, Weak};
use std::time::Duration;

use libredlock_sys as sys;
use tokio::io::{unix::AsyncFd, Interest};
use tokio::sync::oneshot;

use crate::client::{millis, Client, ClientOptions, Handle};
use crate::error::{Error, Result};
use crate::leader::{Leader, Observer};
use crate::lock::{Lock, LockBuilder};

/// The mode of clients and locks that are awaited.
#[derive(Debug)]
pub enum Tasks {}

/// A [`Client`] whose locks are awaited in tasks of tokio.
pub type AsyncClient = Client<Tasks>;
/// A [`Lock`] of an [`AsyncClient`].
pub type AsyncLock = Lock<Tasks>;
/// An [`Observer`] of an [`AsyncClient`].
pub type AsyncObserver = Observer<Tasks>;

impl ClientOptions {
    /// Opens a client for tasks, see [`Client::open_async`].
    pub fn open_async(&self, nodes: &str) -> Result<AsyncClient> {
        let handle = Arc::new(self.open_as(nodes, true)?);
        let failed = |error: std::io::Error| Error::new(sys::REDLOCK_SYSTEM, error.to_string());
        // SAFETY: the descriptor is the client's, which lives. The copy may outlive it.
        let bell = unsafe { BorrowedFd::borrow_raw(sys::redlock_client_fd(handle.raw())) };
        let bell = bell.try_clone_to_owned().map_err(failed)?;
        #[allow(deprecated)] // an OwnedFd is sound here, and tokio before 1.54 has nothing else
        let bell = AsyncFd::with_interest(bell, Interest::READABLE).map_err(failed)?;
        let driver = tokio::spawn(drive(bell, Arc::downgrade(&handle)));
        let _ = handle.driver.set(driver.abort_handle());
        Ok(Client::of(handle))
    }
}

/// Runs the callbacks.
async fn drive(bell: AsyncFd<OwnedFd>, client: Weak<Handle>) {
    while let Ok(mut ready) = bell.readable().await {
        ready.clear_ready(); // first: the bell may ring again meanwhile
        let Some(client) = client.upgrade() else {
            return;
        };
        // SAFETY: the client lives.
        unsafe { sys::redlock_process(client.raw()) };
    }
}

impl Client {
    /// Opens a client for tasks of the current tokio runtime, on nodes as [`Client::open`] takes
    /// them. It panics outside of a runtime.
    pub fn open_async(nodes: &str) -> Result<AsyncClient> {
        ClientOptions::new().open_async(nodes)
    }
}

impl AsyncClient {
    /// Waits until every node is connected or its last try to connect has failed. Returns the
    /// number of nodes that are ready.
    pub async fn wait_ready(&self, wait: Duration) -> Result<usize> {
        let handle = self.handle.clone();
        let waiting = tokio::task::spawn_blocking(move || handle.wait_ready(wait));
        waiting
            .await
            .unwrap_or_else(|_| Err(Error::plain(sys::REDLOCK_CANCELLED)))
    }
}

/// Called once for each operation that was started.
unsafe extern "C" fn done(context: *mut c_void, _lock: *mut sys::redlock_lock, result: c_int) {
    let sender = Box::from_raw(context.cast::<oneshot::Sender<c_int>>());
    let _ = sender.send(result); // nobody waits if the future was dropped
}

/// Starts an operation and waits for its end.
///
/// # Safety
/// `start` passes the context on to the library with `done`.
async unsafe fn finish(start: impl FnOnce(sys::redlock_done_fn, *mut c_void) -> c_int) -> c_int {
    let receiver = {
        let (sender, receiver) = oneshot::channel();
        let context = Box::into_raw(Box::new(sender));
        match start(done, context.cast()) {
            sys::REDLOCK_OK => receiver,
            failed => {
                drop(Box::from_raw(context));
                return failed;
            }
        }
    };
    receiver.await.unwrap_or(sys::REDLOCK_CANCELLED)
}

impl LockBuilder<Tasks> {
    /// Acquires the lock. Dropping the future gives up, and leaves nothing locked. An error is that
    /// of the last try.
    pub async fn acquire(self) -> Result<AsyncLock> {
        let wait = self.wait_ms();
        let lock = self.make()?;
        let raw = Sent(lock.raw);
        // SAFETY: the lock lives until the future ends. If that is early, freeing it ends the
        // acquisition and calls `done`.
        let result = unsafe {
            finish(move |done, context| {
                sys::redlock_acquire_start(raw.get(), wait, Some(done), context)
            })
            .await
        };
        lock.check(result)?;
        Ok(lock)
    }

    /// One try. [`ErrorKind::Held`](crate::ErrorKind::Held): another client has it.
    pub async fn try_acquire(self) -> Result<AsyncLock> {
        self.wait(Duration::ZERO).acquire().await
    }
}

impl AsyncLock {
    /// Waits until the lock is lost, and says why: a branch of `tokio::select!`. It comes before
    /// validity ends.
    pub async fn lost(&self) -> Error {
        loop {
            let notified = self.loss.notify.notified();
            if let Some(error) = self.loss.error.get() {
                return error.clone();
            }
            notified.await;
        }
    }

    /// Sets what is left to at least `ttl` on a majority. Never shortens it, never brings a lost
    /// lock back.
    pub async fn extend(&self, ttl: Duration) -> Result<()> {
        let (raw, ttl) = (Sent(self.raw), millis(ttl));
        // SAFETY: the lock lives until the future ends, or calls `done` when it is freed.
        let result = unsafe {
            finish(move |done, context| {
                sys::redlock_extend_start(raw.get(), ttl, Some(done), context)
            })
            .await
        };
        self.check(result)
    }

    /// Releases the lock. An error (`Lost`, `NoQuorum`) says that it was not surely held until now;
    /// it is free in each case, also if the future is dropped.
    pub async fn release(self) -> Result<()> {
        let raw = Sent(self.raw);
        // SAFETY: as for extend().
        let result = unsafe {
            finish(move |done, context| sys::redlock_release_start(raw.get(), Some(done), context))
                .await
        };
        self.check(result)
    }
}

impl AsyncObserver {
    /// Waits for the next report; of several in a row only the last is seen.
    pub async fn next(&mut self) -> Leader {
        loop {
            let notified = self.board.notify.notified();
            let (count, leader) = self.board.last().clone();
            if count != self.seen {
                self.seen = count;
                return leader;
            }
            notified.await;
        }
    }
}

/// A lock's address in a future that another thread may run.
struct Sent(*mut sys::redlock_lock);

// SAFETY: any thread may call any function.
unsafe impl Send for Sent {}

impl Sent {
    fn get(&self) -> *mut sys::redlock_lock {
        self.0
    }
}

const _: fn() = || {
    fn shared<T: Send + Sync>() {}
    fn sent<T: Send>(_: T) {}
    shared::<AsyncClient>();
    shared::<AsyncLock>();
    shared::<AsyncObserver>();
    let _ = |builder: LockBuilder<Tasks>| sent(builder.acquire());
    let _ = |lock: AsyncLock| sent(lock.release());
};
