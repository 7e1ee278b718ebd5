// SPDX-License-Identifier: BSD-2-Clause

//! What callbacks of C may do, and what they may not.

use std::cell::Cell;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::thread;

thread_local!(static INSIDE: Cell<bool> = const { Cell::new(false) });

/// Runs what a callback is for. A panic must not go through C; the panic hook has reported it.
pub(crate) fn inside(work: impl FnOnce()) {
    let outer = INSIDE.replace(true);
    let _ = catch_unwind(AssertUnwindSafe(work));
    INSIDE.set(outer);
}

/// Does what no callback may do. The closure of a program, or a waker, may drop anything: then a
/// thread of its own does it.
pub(crate) fn outside(work: impl FnOnce() + Send + 'static) {
    if INSIDE.get() {
        thread::spawn(work);
    } else {
        work();
    }
}
