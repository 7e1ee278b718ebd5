// SPDX-License-Identifier: BSD-2-Clause

use std::ffi::{c_int, c_void};
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use std::{fmt, mem, ptr};

use libredlock_sys as sys;

use crate::callback::inside;
use crate::client::{duration, millis, settings, Client, Handle};
use crate::error::{Error, Result};
use crate::Blocking;

type OnLost = Box<dyn FnOnce(&Error) + Send>;

/// A lock that is not acquired yet, and its options.
///
/// A lock renews itself at a third of its TTL until it is released or lost.
#[must_use = "acquire() acquires it"]
pub struct LockBuilder<M = Blocking> {
    pub(crate) client: Client<M>,
    resources: Vec<Vec<u8>>,
    owner: Vec<u8>,
    raw: sys::redlock_lock_options,
    pub(crate) wait: Option<Duration>,
    refused: Option<&'static str>,
    on_lost: Option<OnLost>,
}

// SAFETY: the struct of C holds only numbers here; its pointers are set in make().
unsafe impl<M> Send for LockBuilder<M> {}

impl<M> LockBuilder<M> {
    pub(crate) fn new(client: Client<M>, resources: Vec<Vec<u8>>) -> Self {
        // SAFETY: all fields may be zero, and the function fills them.
        let raw = unsafe {
            let mut raw: sys::redlock_lock_options = mem::zeroed();
            sys::redlock_lock_options_fill(&mut raw, mem::size_of_val(&raw));
            raw
        };
        LockBuilder {
            client,
            resources,
            owner: Vec::new(),
            raw,
            wait: None,
            refused: None,
            on_lost: None,
        }
    }

    settings! {
        /// How long the lock lives without its holder: 10 ms to 24 h; 30 s by default.
        ttl(Duration) => ttl_ms = millis(ttl);
        /// The loss is reported this long before validity ends: a tenth of the TTL, at most 1 s.
        lost_margin(Duration) => lost_margin_ms = millis(lost_margin);
        /// Whether the lock renews itself: true.
        renew(bool) => renew = renew.into();
    }

    /// The lock ends at most this long after it was acquired.
    pub fn max_hold(mut self, max_hold: Duration) -> Self {
        self.raw.hold_ms_max = millis(max_hold);
        self.unless(max_hold.is_zero(), "max_hold is 0; it must be longer")
    }

    /// A semaphore: the lock is one of so many slots, 1 to 64. All clients give the same number.
    pub fn slots(mut self, slots: u32) -> Self {
        self.raw.slots = slots;
        self.unless(slots == 0, "slots is 0; it must be between 1 and 64")
    }

    /// What for the library is no limit, and no slots.
    fn unless(mut self, wrong: bool, why: &'static str) -> Self {
        if wrong {
            self.refused = Some(why);
        }
        self
    }

    /// Any number of shared locks at a time, and no exclusive one meanwhile.
    pub fn shared(mut self) -> Self {
        self.raw.shared = 1;
        self
    }

    /// Who holds it, at most 128 bytes: a part of the token, which `redlock show` shows.
    pub fn owner(mut self, owner: impl Into<Vec<u8>>) -> Self {
        self.owner = owner.into();
        self
    }

    pub(crate) fn leader(mut self) -> Self {
        self.raw.leader = 1;
        self
    }

    /// How long `acquire()` waits for the lock. By default it waits until it has the lock.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = Some(wait);
        self
    }

    /// Runs once when the lock is lost, before its validity ends, on a thread of the library. Keep it
    /// short: the renewals of the client's locks wait for it, and so does a thread that drops the lock.
    pub fn on_lost(mut self, on_lost: impl FnOnce(&Error) + Send + 'static) -> Self {
        self.on_lost = Some(Box::new(on_lost));
        self
    }

    pub(crate) fn wait_ms(&self) -> i64 {
        self.wait.map_or(sys::REDLOCK_WAIT_FOREVER, millis)
    }

    /// The lock, still free.
    pub(crate) fn make(mut self) -> Result<Lock<M>> {
        if let Some(why) = self.refused {
            return Err(Error::new(sys::REDLOCK_BAD_ARGUMENT, why));
        }
        let name = self
            .resources
            .iter()
            .map(|each| String::from_utf8_lossy(each))
            .collect::<Vec<_>>()
            .join(", ");
        let loss = Arc::new(Loss {
            client: self.client.handle.clone(),
            name,
            on_lost: Mutex::new(self.on_lost.take()),
            error: OnceLock::new(),
            #[cfg(feature = "tokio")]
            notify: Default::default(),
        });
        if !self.owner.is_empty() {
            self.raw.owner = self.owner.as_ptr().cast();
            self.raw.owner_bytes = self.owner.len();
        }
        self.raw.on_change = Some(on_change);
        self.raw.on_change_context = Arc::as_ptr(&loss).cast_mut().cast();
        let resources: Vec<_> = self.resources.iter().map(|each| bytes(each)).collect();
        let mut raw = ptr::null_mut();
        // SAFETY: resources and owner live during the call, which copies them; `loss` lives until
        // the lock is freed.
        unsafe {
            let mut error: sys::redlock_error = mem::zeroed();
            let (count, first) = (resources.len(), resources.as_ptr());
            let result = sys::redlock_lock_new_multi(
                loss.client.raw(),
                first,
                count,
                &self.raw,
                &mut raw,
                &mut error,
            );
            if result != sys::REDLOCK_OK {
                return Err(Error::filled(result, &error));
            }
        }
        Ok(Lock {
            raw,
            loss,
            mode: PhantomData,
        })
    }
}

impl<M> fmt::Debug for LockBuilder<M> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("LockBuilder")
            .field("resources", &self.resources)
            .finish_non_exhaustive()
    }
}

impl LockBuilder {
    /// Acquires the lock. An error is that of the last try.
    pub fn acquire(self) -> Result<Lock> {
        let wait = self.wait_ms();
        let lock = self.make()?;
        // SAFETY: the lock lives.
        lock.check(unsafe { sys::redlock_acquire(lock.raw, wait) })?;
        Ok(lock)
    }

    /// One try. [`ErrorKind::Held`](crate::ErrorKind::Held): another client has it.
    pub fn try_acquire(self) -> Result<Lock> {
        self.wait(Duration::ZERO).acquire()
    }
}

/// What the callback of a lock needs.
pub(crate) struct Loss {
    pub(crate) client: Arc<Handle>, // it outlives the lock
    name: String,
    on_lost: Mutex<Option<OnLost>>,
    pub(crate) error: OnceLock<Error>,
    #[cfg(feature = "tokio")]
    pub(crate) notify: tokio::sync::Notify,
}

unsafe extern "C" fn on_change(context: *mut c_void, lock: *mut sys::redlock_lock, change: c_int) {
    if change != sys::REDLOCK_CHANGE_LOST {
        return;
    }
    // The lock lives, and so does `loss`. What runs here may drop the lock: this keeps `loss`.
    let loss = context.cast_const().cast::<Loss>();
    Arc::increment_strong_count(loss);
    let loss = Arc::from_raw(loss);
    inside(move || {
        let error = loss
            .error
            .get_or_init(|| Error::why(loss.client.raw(), lock, sys::REDLOCK_LOST, &loss.name));
        #[cfg(feature = "tokio")]
        loss.notify.notify_waiters();
        if let Some(on_lost) = loss
            .on_lost
            .lock()
            .ok()
            .and_then(|mut on_lost| on_lost.take())
        {
            on_lost(error);
        }
    });
}

/// A held lock. Dropping it releases it without waiting; [`release()`](Lock::release) waits, and
/// reports whether it was held until then.
///
/// A lock can be lost while its guard lives: a program that is paused for longer than the TTL holds
/// nothing. Before an action that needs the lock, use [`ensure()`](Lock::ensure), or give the
/// [`fence()`](Lock::fence) to the resource.
#[must_use = "dropping a lock releases it"]
pub struct Lock<M = Blocking> {
    pub(crate) raw: *mut sys::redlock_lock,
    pub(crate) loss: Arc<Loss>,
    mode: PhantomData<fn() -> M>,
}

// SAFETY: with the service thread, any thread may call any function. What the callback shares is
// behind a mutex or written once.
unsafe impl<M> Send for Lock<M> {}
unsafe impl<M> Sync for Lock<M> {}

impl<M> Drop for Lock<M> {
    fn drop(&mut self) {
        // SAFETY: nothing uses the lock after this. No callback begins after this call; one that runs
        // in this thread has its own share of `loss`.
        unsafe { sys::redlock_lock_free(self.raw) }
    }
}

impl<M> fmt::Debug for Lock<M> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = to.debug_struct("Lock");
        text.field("name", &self.loss.name)
            .field("validity", &self.validity())
            .finish_non_exhaustive()
    }
}

impl<M> Lock<M> {
    /// For how long the lock is still surely ours; zero: it is not. Reads the clock, not the
    /// network.
    pub fn validity(&self) -> Duration {
        // SAFETY: the lock lives.
        duration(unsafe { sys::redlock_validity_ms(self.raw) })
    }

    /// An error, if the lock is lost: for the `?` before an action that needs the lock.
    pub fn ensure(&self) -> Result<()> {
        if let Some(error) = self.loss.error.get() {
            return Err(error.clone());
        }
        match self.validity() {
            Duration::ZERO => self.check(sys::REDLOCK_LOST),
            _ => Ok(()),
        }
    }

    /// Guarded: the fencing token, which only grows from one holder to the next; a signed number,
    /// as databases store it. `None`: classic mode.
    pub fn fence(&self) -> Option<i64> {
        // SAFETY: the lock lives.
        Some(unsafe { sys::redlock_fence(self.raw) }).filter(|&fence| fence > 0)
    }

    /// The token: 40 hex digits; with slots `/` and their number; and `:` and the owner if there is
    /// one.
    pub fn token(&self) -> Vec<u8> {
        let mut token = vec![0; sys::REDLOCK_TOKEN_BYTES_MAX as usize];
        // SAFETY: the lock lives; the call writes at most as many bytes.
        let bytes =
            unsafe { sys::redlock_token_copy(self.raw, token.as_mut_ptr().cast(), token.len()) };
        token.truncate(bytes);
        token
    }

    /// Which slot is held, 1 to `slots`.
    pub fn slot(&self) -> Option<u32> {
        // SAFETY: the lock lives.
        Some(unsafe { sys::redlock_slot(self.raw) }).filter(|&slot| slot > 0)
    }

    pub(crate) fn check(&self, result: c_int) -> Result<()> {
        match result {
            sys::REDLOCK_OK => Ok(()),
            // SAFETY: both live, and the lock is the client's.
            failed => Err(unsafe {
                Error::why(self.loss.client.raw(), self.raw, failed, &self.loss.name)
            }),
        }
    }

    pub(crate) fn extended(&self, ttl: Duration, result: c_int) -> Result<()> {
        if result != sys::REDLOCK_BAD_ARGUMENT {
            return self.check(result);
        }
        let (least, most) = (sys::REDLOCK_TTL_MS_MIN, sys::REDLOCK_TTL_MS_MAX);
        let (name, ms) = (&self.loss.name, millis(ttl));
        let why = format!("{name}: ttl_ms is {ms}; it must be between {least} and {most}");
        Err(Error::new(result, why))
    }
}

impl Lock {
    /// Sets what is left to at least `ttl` on a majority. Never shortens it, never brings a lost
    /// lock back.
    pub fn extend(&self, ttl: Duration) -> Result<()> {
        // SAFETY: the lock lives.
        self.extended(ttl, unsafe { sys::redlock_extend(self.raw, millis(ttl)) })
    }

    /// Releases the lock. An error (`Lost`, `NoQuorum`) says that it was not surely held until now;
    /// it is free in each case.
    pub fn release(self) -> Result<()> {
        // SAFETY: the lock lives.
        self.check(unsafe { sys::redlock_release(self.raw) })
    }
}

pub(crate) fn bytes(of: &[u8]) -> sys::redlock_bytes {
    sys::redlock_bytes {
        data: of.as_ptr().cast(),
        bytes: of.len(),
    }
}
