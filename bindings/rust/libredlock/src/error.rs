// SPDX-License-Identifier: BSD-2-Clause

use std::ffi::{c_char, c_int, CStr};
use std::{fmt, mem, ptr};

use libredlock_sys as sys;

/// What a function of this crate returns.
pub type Result<T> = std::result::Result<T, Error>;

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $result:ident,)*) => {
        /// Why an operation failed. `Held` ("another client has it") and `NoQuorum` ("cannot know")
        /// are different answers.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum ErrorKind { $($(#[$doc])* $kind,)* /** A result that this crate does not name. */ Other }

        impl ErrorKind {
            fn of(result: c_int) -> ErrorKind {
                match result { $(sys::$result => ErrorKind::$kind,)* _ => ErrorKind::Other }
            }
        }
    };
}

kinds! {
    /// Another client holds the lock.
    Held = REDLOCK_HELD,
    /// Too few nodes answered.
    NoQuorum = REDLOCK_NO_QUORUM,
    /// The majority answered too late.
    Expired = REDLOCK_EXPIRED,
    /// The lock is no longer ours.
    Lost = REDLOCK_LOST,
    /// The operation was cancelled.
    Cancelled = REDLOCK_CANCELLED,
    /// A value is outside of its limits.
    BadArgument = REDLOCK_BAD_ARGUMENT,
    /// No memory is left.
    NoMemory = REDLOCK_NO_MEMORY,
    /// The client was opened before a fork: open another one in the child.
    Forked = REDLOCK_FORKED,
    /// Another operation on this lock is under way.
    Busy = REDLOCK_BUSY,
    /// A system call failed.
    System = REDLOCK_SYSTEM,
    /// One server is in the list twice.
    TwiceListed = REDLOCK_TWICE_LISTED,
    /// The lock's longest hold is used up.
    Limit = REDLOCK_LIMIT,
    /// The TTL is longer than the quorum's `ttl_max`.
    TtlMaxExceeded = REDLOCK_TTL_MAX_EXCEEDED,
    /// The list has servers of two quorums.
    TwoQuorums = REDLOCK_TWO_QUORUMS,
    /// The servers belong to a guarded quorum, and the client is not guarded.
    GuardedNodes = REDLOCK_GUARDED_NODES,
    /// Slots are held with another number of slots.
    OtherSlots = REDLOCK_OTHER_SLOTS,
    /// A native node keeps no slots.
    NoSlots = REDLOCK_NO_SLOTS,
    /// A native node keeps no shared locks.
    NoShared = REDLOCK_NO_SHARED,
}

/// Why an operation failed: a sentence, and the cure if one is known. It contains no secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    result: c_int,
    sentence: String,
    cure: String,
}

impl Error {
    /// What to match on.
    pub fn kind(&self) -> ErrorKind {
        ErrorKind::of(self.result)
    }

    /// The number that the library returned (`enum redlock_result`).
    pub fn result(&self) -> i32 {
        self.result
    }

    /// What is wrong, in one sentence: "nightly: no quorum: 1 of 3 nodes answered, 2 needed (...)".
    pub fn sentence(&self) -> &str {
        &self.sentence
    }

    /// A command, a setting or what to do; empty: none is known.
    pub fn cure(&self) -> &str {
        &self.cure
    }

    pub(crate) fn new(result: c_int, sentence: impl Into<String>) -> Error {
        Error {
            result,
            sentence: sentence.into(),
            cure: String::new(),
        }
    }

    /// Of a call that filled `error`.
    pub(crate) fn filled(result: c_int, error: &sys::redlock_error) -> Error {
        match text(&error.text) {
            sentence if sentence.is_empty() => Error::plain(result),
            sentence => Error::new(result, sentence),
        }
    }

    /// Of a call that only returned a result.
    pub(crate) fn plain(result: c_int) -> Error {
        // SAFETY: the text is static and never NULL.
        let sentence = unsafe { CStr::from_ptr(sys::redlock_result_text(result)) };
        Error::new(result, sentence.to_string_lossy())
    }

    /// Of an operation on a lock, by what the nodes answered.
    ///
    /// # Safety
    /// Both live, and the lock is the client's.
    pub(crate) unsafe fn why(
        client: *mut sys::redlock_client,
        lock: *mut sys::redlock_lock,
        result: c_int,
        name: &str,
    ) -> Error {
        let mut why: sys::redlock_why_report = mem::zeroed();
        why.size = mem::size_of_val(&why);
        if sys::redlock_why(client, lock, result, ptr::null(), &mut why) != sys::REDLOCK_OK {
            return Error::plain(result);
        }
        let sentence = format!("{name}: {}", text(&why.sentence));
        Error {
            result: why.result,
            sentence,
            cure: text(&why.cure),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.sentence)?;
        match self.cure.as_str() {
            "" => Ok(()),
            cure => write!(to, "; to fix it: {cure}"),
        }
    }
}

impl std::error::Error for Error {}

/// A field with a text that ends with NUL.
fn text(field: &[c_char]) -> String {
    let bytes: Vec<u8> = field
        .iter()
        .map(|&each| each as u8)
        .take_while(|&each| each != 0)
        .collect();
    String::from_utf8_lossy(&bytes).into_owned()
}
