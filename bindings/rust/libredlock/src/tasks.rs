// SPDX-License-Identifier: BSD-2-Clause

//! Locks in tasks of tokio: the library's descriptor becomes readable when callbacks are due, and
//! one task runs them. The library's own thread goes on renewing.

use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use std::{mem, ptr};

use libredlock_sys as sys;
use tokio::io::{unix::AsyncFd, Interest};
use tokio::sync::{oneshot, Notify};

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
    pub fn open_async<'n>(&self, nodes: impl Into<Option<&'n str>>) -> Result<AsyncClient> {
        let handle = Arc::new(self.open_as(nodes.into(), true)?);
        let failed = |error: std::io::Error| Error::new(sys::REDLOCK_SYSTEM, error.to_string());
        // SAFETY: the descriptor is the client's, which lives. The copy may outlive it.
        let bell = unsafe { BorrowedFd::borrow_raw(sys::redlock_client_fd(handle.raw())) };
        let bell = bell.try_clone_to_owned().map_err(failed)?;
        #[allow(deprecated)] // an OwnedFd is sound here, and tokio before 1.54 has nothing else
        let bell = AsyncFd::with_interest(bell, Interest::READABLE).map_err(failed)?;
        let desk = Arc::<Desk>::default();
        let running = [
            tokio::spawn(drive(bell, Arc::downgrade(&handle), desk.clone())).abort_handle(),
            tokio::spawn(begin(Arc::downgrade(&handle), desk.clone())).abort_handle(),
        ];
        let _ = handle.tasks.set((desk, running));
        Ok(Client::of(handle))
    }
}

/// Runs the callbacks.
async fn drive(bell: AsyncFd<OwnedFd>, client: Weak<Handle>, desk: Arc<Desk>) {
    while let Ok(mut ready) = bell.readable().await {
        ready.clear_ready(); // first: the bell may ring again meanwhile
        let Some(client) = client.upgrade() else {
            return;
        };
        // SAFETY: the client lives.
        unsafe { sys::redlock_process(client.raw()) };
        desk.turn();
    }
}

impl Handle {
    fn desk(&self) -> &Desk {
        &self
            .tasks
            .get()
            .expect("a client that is opened for tasks")
            .0
    }
}

impl Client {
    /// Opens a client for tasks of the current tokio runtime, on nodes as [`Client::open`] takes
    /// them. It panics outside of a runtime.
    pub fn open_async<'n>(nodes: impl Into<Option<&'n str>>) -> Result<AsyncClient> {
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

/// Where acquisitions and releases begin and end. The first of a turn begins at once; those that
/// tasks want next to it begin together, so that what they send to a node leaves in one write.
#[derive(Default)]
pub(crate) struct Desk {
    state: Mutex<State>,
    wanted: Notify,
}

#[derive(Default)]
struct State {
    busy: bool, // one began since the last callbacks
    wanted: Vec<Wanted>,
    ends: HashMap<usize, oneshot::Sender<c_int>>, // by the lock's address
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

impl Desk {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self, lock: *mut sys::redlock_lock, result: c_int) {
        let end = self.state().ends.remove(&(lock as usize));
        if let Some(end) = end {
            let _ = end.send(result); // nobody waits if the future was dropped
        }
    }

    /// Begins all that is wanted. Nobody frees a lock that is wanted meanwhile: forget() waits.
    fn begin(&self) {
        let mut state = self.state();
        let mut wanted = mem::take(&mut state.wanted);
        while let Some(Wanted { what, .. }) = wanted.first().copied() {
            let (alike, others) = wanted
                .into_iter()
                .partition::<Vec<_>, _>(|each| each.what == what);
            let locks: Vec<_> = alike.iter().map(|each| each.lock).collect();
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
            for (lock, result) in locks
                .into_iter()
                .zip(results)
                .filter(|(_, result)| *result != 0)
            {
                state
                    .ends
                    .remove(&(lock as usize))
                    .map(|end| end.send(result));
            }
            wanted = others;
        }
    }

    fn forget(&self, lock: *mut sys::redlock_lock) {
        let mut state = self.state();
        state.wanted.retain(|each| each.lock != lock);
        state.ends.remove(&(lock as usize));
    }

    /// The callbacks of a turn have run.
    fn turn(&self) {
        self.state().busy = false;
    }
}

/// Called once for each acquisition and release that was begun.
unsafe extern "C" fn done(desk: *mut c_void, lock: *mut sys::redlock_lock, result: c_int) {
    (*desk.cast::<Desk>()).end(lock, result);
}

/// Begins what is wanted when the tasks that run have said so.
async fn begin(client: Weak<Handle>, wanted: Arc<Desk>) {
    loop {
        wanted.wanted.notified().await;
        let Some(_client) = client.upgrade() else {
            return;
        };
        wanted.begin();
    }
}

/// An acquisition or release that is wanted, or under way.
struct Doing<'a> {
    desk: &'a Desk,
    lock: &'a AsyncLock,
    ended: bool,
}

impl Drop for Doing<'_> {
    fn drop(&mut self) {
        if !self.ended {
            self.desk.forget(self.lock.raw);
        }
    }
}

impl AsyncLock {
    async fn finish(&self, what: What) -> Result<()> {
        let desk = self.client.desk();
        let mut doing = Doing {
            desk,
            lock: self,
            ended: false,
        };
        let receiver = {
            let (sender, receiver) = oneshot::channel();
            let mut state = desk.state();
            state.ends.insert(self.raw as usize, sender);
            state.wanted.push(Wanted {
                lock: self.raw,
                what,
            });
            let alone = !mem::replace(&mut state.busy, true);
            let first = state.wanted.len() == 1;
            drop(state);
            if alone {
                desk.begin();
            } else if first {
                desk.wanted.notify_one();
            }
            receiver
        };
        let result = receiver.await.unwrap_or(sys::REDLOCK_CANCELLED);
        doing.ended = true;
        self.check(result)
    }
}

/// Called once for each extension that was started.
unsafe extern "C" fn extended(context: *mut c_void, _lock: *mut sys::redlock_lock, result: c_int) {
    let sender = Box::from_raw(context.cast::<oneshot::Sender<c_int>>());
    let _ = sender.send(result); // nobody waits if the future was dropped
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
                    return self.check(begun);
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
