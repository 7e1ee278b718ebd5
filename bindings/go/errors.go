// SPDX-License-Identifier: BSD-2-Clause

package redlock

// #include "shim.h"
import "C"

import (
	"errors"
	"unsafe"
)

// A Code says what kind of failure an [Error] is. Codes are errors themselves, for [errors.Is].
type Code int

const (
	ErrHeld           Code = C.REDLOCK_HELD             // another client has the lock
	ErrNoQuorum       Code = C.REDLOCK_NO_QUORUM        // too few nodes answered to know
	ErrExpired        Code = C.REDLOCK_EXPIRED          // the majority answered too late
	ErrLost           Code = C.REDLOCK_LOST             // the lock is not, or no longer, ours
	ErrCancelled      Code = C.REDLOCK_CANCELLED        // the wait was ended
	ErrBadArgument    Code = C.REDLOCK_BAD_ARGUMENT     // an option, a URL or a name is wrong
	ErrNoMemory       Code = C.REDLOCK_NO_MEMORY        //
	ErrSystem         Code = C.REDLOCK_SYSTEM           // a system call failed
	ErrTwiceListed    Code = C.REDLOCK_TWICE_LISTED     // one server is listed twice
	ErrLimit          Code = C.REDLOCK_LIMIT            // [MaxHold] is used up
	ErrTTLMaxExceeded Code = C.REDLOCK_TTL_MAX_EXCEEDED // the TTL is longer than the quorum allows
	ErrTwoQuorums     Code = C.REDLOCK_TWO_QUORUMS      // the nodes belong to two quorums
	ErrGuardedNodes   Code = C.REDLOCK_GUARDED_NODES    // the nodes are guarded, the client is not
	ErrOtherSlots     Code = C.REDLOCK_OTHER_SLOTS      // others use another number of slots
	ErrNoSlots        Code = C.REDLOCK_NO_SLOTS         // a node's module is too old for slots
	ErrNoShared       Code = C.REDLOCK_NO_SHARED        // a node's module is too old for readers
)

func (code Code) Error() string { return "redlock: " + C.GoString(C.redlock_result_text(C.int(code))) }

var (
	// ErrClosed is the cause of what [Client.Close] ended.
	ErrClosed = errors.New("redlock: the client is closed")
	// ErrUnlocked is the cause of a lock's context after [Lock.Unlock].
	ErrUnlocked = errors.New("redlock: the lock is unlocked")
	// ErrForgotten is the cause of a lock's context if the lock was not unlocked, and the garbage
	// collector found it. It is released then.
	ErrForgotten = errors.New("redlock: the lock was forgotten without Unlock, and is released")
)

// An Error says what failed, why, and what to do.
type Error struct {
	Code     Code
	Resource string // "": it is about the client
	Sentence string // what is wrong, with the nodes
	Cure     string // a command, a setting or what to do; "": none is known
	cause    error  // of the context that ended the wait
}

func (err *Error) Error() string {
	text := "redlock: "
	if err.Resource != "" {
		text += shortened(err.Resource) + ": "
	}
	if err.cause != nil {
		text += err.cause.Error() + ": "
	}
	text += err.Sentence
	if err.Cure != "" {
		text += "; " + err.Cure
	}
	return text
}

// A resource has up to 64 KiB.
func shortened(resource string) string {
	if len(resource) <= 200 {
		return resource
	}
	return resource[:200] + "..."
}

// Unwrap returns the code and, if a context ended the wait, the cause of that.
func (err *Error) Unwrap() []error {
	if err.cause == nil {
		return []error{err.Code}
	}
	return []error{err.Code, err.cause}
}

// take copies a string that C has allocated, and frees it.
func take(text *C.char) string {
	defer C.free(unsafe.Pointer(text))
	return C.GoString(text)
}

func badArgument(sentence string) *Error { return &Error{Code: ErrBadArgument, Sentence: sentence} }

func newError(result C.int, resource string, text *C.char) *Error {
	sentence := take(text)
	if sentence == "" {
		sentence = C.GoString(C.redlock_result_text(result))
	}
	return &Error{Code: Code(result), Resource: resource, Sentence: sentence}
}
