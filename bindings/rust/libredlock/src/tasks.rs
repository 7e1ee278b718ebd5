// SPDX-License-Identifier: BSD-2-Clause

//! Locks in tasks of tokio. The library's own thread ends operations and wakes the tasks that wait
//! for them, in any runtime: a client belongs to none.

use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{mem, ptr};

use libredlock_sys as sys;
use tokio::sync::oneshot;
use tokio::task::{spawn_blocking, yield_now};

use crate::callback::inside;
use crate::client::{millis, Client, ClientOptions};
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
    pub fn open_async<'n>(&self, nodes: impl Into<Option<&'n str>>) -> Result<AsyncClient> {
        let mut handle = self.open_handle(nodes.into())?;
        handle.desk = Some(Desk::default());
        Ok(Client::of(Arc::new(handle)))
    }
}

impl Client {
    /// Opens a client for tasks, on nodes as [`Client::open`] takes them. Tasks of any runtime of
    /// tokio may use it, at the same time or one after another.
    pub fn open_async<'n>(nodes: impl Into<Option<&'n str>>) -> Result<AsyncClient> {
        ClientOptions::new().open_async(nodes)
    }
}

impl AsyncClient {
    /// Waits until every node is connected or its last try to connect has failed. Returns the
    /// number of nodes that are ready.
    pub async fn wait_ready(&self, wait: Duration) -> Result<usize> {
        let handle = self.handle.clone();
        spawn_blocking(move || handle.wait_ready(wait))
            .await
            .unwrap_or_else(|_| Err(Error::plain(sys::REDLOCK_CANCELLED)))
    }
}

/// Where acquisitions and releases begin and end. One that is alone begins at once; those that tasks
/// want next to each other begin together, so that what they send to a node leaves in one write.
#[derive(Default)]
pub(crate) struct Desk {
    wanted: Mutex<Vec<Wanted>>,
    ends: Mutex<HashMap<usize, oneshot::Sender<c_int>>>, // by the lock's address
}

#[derive(Clone, Copy)]
struct Wanted {
    lock: *mut sys::redlock_lock,
    what: What,
}

#[derive(Clone, Copy, PartialEq)]
enum What {
    Acquire(i64),
    Release,
}

// SAFETY: any thread may call any function with a lock.
unsafe impl Send for Wanted {}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Desk {
    /// Where the result comes, and whether nothing else is wanted or under way.
    fn want(&self, wanted: Wanted) -> (oneshot::Receiver<c_int>, bool) {
        let (sender, receiver) = oneshot::channel();
        let mut ends = locked(&self.ends);
        let alone = ends.is_empty();
        ends.insert(wanted.lock as usize, sender);
        drop(ends);
        locked(&self.wanted).push(wanted);
        (receiver, alone)
    }

    /// Begins all that is wanted. Nobody frees a lock that is wanted meanwhile: forget() waits.
    fn begin(&self) {
        let mut queue = locked(&self.wanted);
        let mut wanted = mem::take(&mut *queue);
        while let Some(Wanted { what, .. }) = wanted.first().copied() {
            let (alike, others) = wanted
                .into_iter()
                .partition::<Vec<_>, _>(|each| each.what == what);
            self.begin_alike(what, alike.iter().map(|each| each.lock).collect());
            wanted = others;
        }
    }

    fn begin_alike(&self, what: What, locks: Vec<*mut sys::redlock_lock>) {
        let mut results = vec![sys::REDLOCK_OK; locks.len()];
        let (first, count, to) = (locks.as_ptr(), locks.len(), results.as_mut_ptr());
        let desk = ptr::from_ref(self).cast_mut().cast();
        // SAFETY: the locks live, and each keeps the desk alive until it has called `done`.
        let _ = unsafe {
            match what {
                What::Acquire(wait) => {
                    sys::redlock_acquire_many_start(first, count, wait, to, Some(done), desk)
                }
                What::Release => {
                    sys::redlock_release_many_start(first, count, to, Some(done), desk)
                }
            }
        };
        for (lock, result) in locks.into_iter().zip(results) {
            if result != sys::REDLOCK_OK {
                self.take(lock).map(|end| end.send(result));
            }
        }
    }

    fn take(&self, lock: *mut sys::redlock_lock) -> Option<oneshot::Sender<c_int>> {
        locked(&self.ends).remove(&(lock as usize))
    }

    fn forget(&self, lock: *mut sys::redlock_lock) {
        locked(&self.wanted).retain(|each| each.lock != lock);
        self.take(lock);
    }
}

/// Called once for each acquisition and release that was begun.
unsafe extern "C" fn done(desk: *mut c_void, lock: *mut sys::redlock_lock, result: c_int) {
    inside(|| {
        if let Some(end) = (*desk.cast::<Desk>()).take(lock) {
            let _ = end.send(result); // nobody waits if the future was dropped
        }
    });
}

/// An acquisition or release that is wanted, or under way.
struct Doing<'a> {
    desk: &'a Desk,
    lock: *mut sys::redlock_lock,
}

// SAFETY: as of what is wanted.
unsafe impl Send for Doing<'_> {}

impl Drop for Doing<'_> {
    fn drop(&mut self) {
        self.desk.forget(self.lock);
    }
}

impl AsyncLock {
    async fn finish(&self, what: What) -> Result<()> {
        let desk = self.loss.client.desk.as_ref();
        let desk = desk.expect("a client that is opened for tasks");
        let lock = self.raw;
        let doing = Doing { desk, lock };
        let (receiver, alone) = desk.want(Wanted { lock, what });
        if !alone {
            yield_now().await; // tasks that were answered together want something together
        }
        desk.begin();
        let result = receiver.await.unwrap_or(sys::REDLOCK_CANCELLED);
        mem::forget(doing); // it has ended
        self.check(result)
    }
}

/// Called once for each extension that was started.
unsafe extern "C" fn extended(context: *mut c_void, _lock: *mut sys::redlock_lock, result: c_int) {
    inside(|| {
        let sender = Box::from_raw(context.cast::<oneshot::Sender<c_int>>());
        let _ = sender.send(result); // nobody waits if the future was dropped
    });
}

impl LockBuilder<Tasks> {
    /// Acquires the lock. Dropping the future gives up, and leaves nothing locked. An error is that
    /// of the last try.
    pub async fn acquire(self) -> Result<AsyncLock> {
        let what = What::Acquire(self.wait_ms());
        let lock = self.make()?;
        lock.finish(what).await?;
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
        let receiver = {
            let (sender, receiver) = oneshot::channel();
            let context = Box::into_raw(Box::new(sender));
            // SAFETY: the lock lives; `extended` gets the context once, if the extension has begun.
            unsafe {
                let begun = sys::redlock_extend_start(
                    self.raw,
                    millis(ttl),
                    Some(extended),
                    context.cast(),
                );
                if begun != sys::REDLOCK_OK {
                    drop(Box::from_raw(context));
                    return self.extended(ttl, begun);
                }
            }
            receiver
        };
        self.check(receiver.await.unwrap_or(sys::REDLOCK_CANCELLED))
    }

    /// Releases the lock. An error (`Lost`, `NoQuorum`) says that it was not surely held until now;
    /// it is free in each case, also if the future is dropped.
    pub async fn release(self) -> Result<()> {
        self.finish(What::Release).await
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

const _: fn() = || {
    fn shared<T: Send + Sync>() {}
    fn sent<T: Send>(_: T) {}
    shared::<AsyncClient>();
    shared::<AsyncLock>();
    shared::<AsyncObserver>();
    let _ = |builder: LockBuilder<Tasks>| sent(builder.acquire());
    let _ = |lock: AsyncLock| sent(lock.release());
};
