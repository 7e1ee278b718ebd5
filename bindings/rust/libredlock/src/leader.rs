// SPDX-License-Identifier: BSD-2-Clause

use std::ffi::c_void;
use std::marker::PhantomData;
use std::sync::atomic::AtomicPtr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{fmt, mem, ptr, slice};

use libredlock_sys as sys;

use crate::callback::{inside, outside};
use crate::client::{Client, Handle};
use crate::error::{Error, Result};
use crate::Blocking;

/// Who leads, as an observer knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Leader {
    /// Too few nodes answer, or what was known has expired.
    #[default]
    Unknown,
    /// Nobody leads.
    Nobody,
    /// Somebody leads.
    Known {
        /// Each later leader has a higher one.
        term: i64,
        /// What the leader gave to [`Client::elect`].
        id: Vec<u8>,
        /// Before it no other client leads, unless this one resigned; in nanoseconds of
        /// `CLOCK_BOOTTIME`, see [`Leader::sure_for`].
        sure_until_ns: i64,
    },
}

impl Leader {
    /// For how long no other client leads, unless this one resigned.
    pub fn sure_for(&self) -> Duration {
        match self {
            // SAFETY: the call needs nothing.
            Leader::Known { sure_until_ns, .. } => Duration::from_nanos(
                (sure_until_ns - unsafe { sys::redlock_now_ns() }).max(0) as u64,
            ),
            _ => Duration::ZERO,
        }
    }
}

/// Reports who leads. It takes nothing, and ends when it is dropped.
pub struct Observer<M = Blocking> {
    raw: *mut sys::redlock_observer,
    pub(crate) board: Arc<Board>,
    pub(crate) seen: u64,
    mode: PhantomData<fn() -> M>,
}

// SAFETY: with the service thread, any thread may call any function; the board is locked.
unsafe impl<M> Send for Observer<M> {}
unsafe impl<M> Sync for Observer<M> {}

/// What was reported last, and how many reports there were.
pub(crate) struct Board {
    client: Arc<Handle>, // it outlives the observer
    last: Mutex<(u64, Leader)>,
    changed: Condvar,
    #[cfg(feature = "tokio")]
    pub(crate) notify: tokio::sync::Notify,
}

impl Board {
    pub(crate) fn last(&self) -> MutexGuard<'_, (u64, Leader)> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

unsafe extern "C" fn on_leader(context: *mut c_void, leader: *const sys::redlock_leader) {
    let (board, leader) = (&*context.cast::<Board>(), &*leader);
    let leader = match leader.state {
        sys::REDLOCK_LEADER_KNOWN => Leader::Known {
            term: leader.term,
            id: match leader.id.bytes {
                0 => Vec::new(),
                bytes => slice::from_raw_parts(leader.id.data.cast(), bytes).to_vec(),
            },
            sure_until_ns: leader.sure_until_ns,
        },
        sys::REDLOCK_LEADER_NONE => Leader::Nobody,
        _ => Leader::Unknown,
    };
    inside(|| {
        let mut last = board.last();
        *last = (last.0 + 1, leader);
        drop(last);
        board.changed.notify_all();
        #[cfg(feature = "tokio")]
        board.notify.notify_waiters();
    });
}

impl<M> Client<M> {
    fn board(&self) -> Arc<Board> {
        Arc::new(Board {
            client: self.handle.clone(),
            last: Default::default(),
            changed: Default::default(),
            #[cfg(feature = "tokio")]
            notify: Default::default(),
        })
    }

    /// Reports who leads `resource` (guarded mode; see [`elect`](Client::elect)).
    pub fn observe(&self, resource: impl AsRef<[u8]>) -> Result<Observer<M>> {
        let (resource, board) = (resource.as_ref(), self.board());
        if resource.is_empty() {
            let why = "the resource is empty: give it a name";
            return Err(Error::new(sys::REDLOCK_BAD_ARGUMENT, why));
        }
        let mut raw = ptr::null_mut();
        // SAFETY: the resource is copied; the board lives until the observer has stopped.
        unsafe {
            let mut error: sys::redlock_error = mem::zeroed();
            let (data, bytes) = (resource.as_ptr().cast(), resource.len());
            let context = Arc::as_ptr(&board).cast_mut().cast();
            let result = sys::redlock_observe_start(
                board.client.raw(),
                data,
                bytes,
                Some(on_leader),
                context,
                &mut raw,
                &mut error,
            );
            if result != sys::REDLOCK_OK {
                return Err(Error::filled(result, &error));
            }
        }
        Ok(Observer {
            raw,
            board,
            seen: 0,
            mode: PhantomData,
        })
    }
}

impl<M> Observer<M> {
    /// What was reported last.
    pub fn leader(&self) -> Leader {
        self.board.last().1.clone()
    }
}

impl Observer {
    /// Waits for the next report; of several in a row only the last is seen. `None`: there was none
    /// in this time.
    pub fn next(&mut self, wait: Duration) -> Option<Leader> {
        let seen = self.seen;
        let last = self
            .board
            .changed
            .wait_timeout_while(self.board.last(), wait, |last| last.0 == seen);
        let last = last.unwrap_or_else(PoisonError::into_inner).0;
        if last.0 == seen {
            return None;
        }
        let (count, leader) = last.clone();
        drop(last);
        self.seen = count;
        Some(leader)
    }
}

impl<M> Drop for Observer<M> {
    fn drop(&mut self) {
        let (raw, board) = (AtomicPtr::new(self.raw), self.board.clone());
        outside(move || {
            // SAFETY: this is no callback. No report comes after the call, so the board may go.
            unsafe { sys::redlock_observe_stop(raw.into_inner()) }
            drop(board);
        });
    }
}

impl<M> fmt::Debug for Observer<M> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("Observer")
            .field("leader", &self.leader())
            .finish_non_exhaustive()
    }
}
