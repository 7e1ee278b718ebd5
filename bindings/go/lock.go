// SPDX-License-Identifier: BSD-2-Clause

package redlock

// #include "shim.h"
import "C"

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"
)

// A Lock is held until Unlock, or until it is lost. All its methods may be called from any
// goroutine.
type Lock struct {
	client    *Client // a lock keeps its client
	held      *held
	forgotten runtime.Cleanup
}

// The part of a lock that the garbage collector does not watch.
type held struct {
	core     *core
	id       uintptr
	resource string
	done     chan C.int  // the result of the operation under way
	blocked  atomic.Bool // a goroutine is in redlock_acquire()

	operation sync.Mutex // held for as long as one lasts
	mutex     sync.Mutex
	c         *C.struct_redlock_lock // nil: freed
	end       context.CancelCauseFunc
	ended     error // why
}

// As long as a lock's context is in use, the lock is.
type lockContext struct {
	context.Context
	lock *Lock
}

// An Option says how [Client.Lock] locks.
type Option func(*lockTerms)

type lockTerms struct {
	c     C.struct_rg_lock_terms
	owner string
	also  []string
}

func milliseconds(d time.Duration) C.int64_t {
	if d != 0 && d.Abs() < time.Millisecond {
		return -1 // 0 is the default, and this is not
	}
	return C.int64_t(d.Milliseconds())
}

// TTL is how long the nodes keep the lock when its holder is gone. 30 s by default; it is renewed
// each third of that.
func TTL(ttl time.Duration) Option {
	return func(terms *lockTerms) { terms.c.ttl_ms = milliseconds(ttl) }
}

// MaxHold limits how long the lock is renewed.
func MaxHold(limit time.Duration) Option {
	return func(terms *lockTerms) { terms.c.hold_ms_max = milliseconds(limit) }
}

// NoRenewal leaves it to [Lock.Extend] to keep the lock for longer than its TTL.
func NoRenewal() Option { return func(terms *lockTerms) { terms.c.no_renewal = 1 } }

// Shared makes the lock a reader's: any number of them hold it, and meanwhile no writer.
func Shared() Option { return func(terms *lockTerms) { terms.c.shared = 1 } }

// Slots makes the lock one of so many, at most 64, that the resource has. All clients give the same
// number.
func Slots(count int) Option {
	return func(terms *lockTerms) { terms.c.slots = C.uint32_t(max(count, 0)) }
}

// Owner is a text of at most 128 bytes that `redlock show` shows, and that observers get as the
// leader's ID.
func Owner(text string) Option { return func(terms *lockTerms) { terms.owner = text } }

// Also adds resources, at most 64 in all: the lock has all of them, or none.
func Also(resources ...string) Option {
	return func(terms *lockTerms) { terms.also = append(terms.also, resources...) }
}

// Lock waits until it has the lock, or until ctx ends. The context that it returns is ctx until the
// lock is unlocked or lost; [context.Cause] then says why. A wait that ctx ends leaves nothing
// behind; its error is that of ctx, and also [ErrHeld], [ErrNoQuorum] or what else kept the lock
// away.
func (client *Client) Lock(ctx context.Context, resource string, options ...Option) (*Lock, context.Context, error) {
	return client.lock(ctx, C.RG_ACQUIRE, resource, false, options)
}

// TryLock is Lock with one try. If another client has the lock, the error is [ErrHeld].
func (client *Client) TryLock(ctx context.Context, resource string, options ...Option) (*Lock, context.Context, error) {
	return client.lock(ctx, C.RG_TRY, resource, false, options)
}

// Elect is Lock for leaders: it waits until it leads. The fence is the term, and observers see the
// [Owner]. It needs guarded nodes.
func (client *Client) Elect(ctx context.Context, resource string, options ...Option) (*Lock, context.Context, error) {
	return client.lock(ctx, C.RG_ACQUIRE, resource, true, options)
}

func (client *Client) lock(ctx context.Context, start int, resource string, leader bool, options []Option) (*Lock, context.Context, error) {
	if err := client.begin(); err != nil {
		return nil, ctx, err
	}
	defer client.core.end()
	defer runtime.KeepAlive(client)
	terms := lockTerms{}
	for _, option := range options {
		option(&terms)
	}
	if leader {
		terms.c.leader = 1
	}
	ours, err := client.core.newLock(resource, &terms)
	if err != nil {
		return nil, ctx, err
	}
	if result, ended := ours.acquire(ctx, start); result != C.REDLOCK_OK || ended != nil {
		err := ours.why(result, ended)
		ours.drop(err)
		return nil, ctx, err
	}
	lock := &Lock{client: client, held: ours}
	inner, end := context.WithCancelCause(ctx)
	ours.setEnd(end)
	lock.forgotten = runtime.AddCleanup(lock, func(held *held) { held.drop(ErrForgotten) }, ours)
	return lock, &lockContext{inner, lock}, nil
}

func (core *core) newLock(resource string, terms *lockTerms) (*held, error) {
	names, lengths := resource, make([]C.size_t, 0, 4)
	lengths = append(lengths, C.size_t(len(resource)))
	for _, also := range terms.also {
		names += also
		lengths = append(lengths, C.size_t(len(also)))
	}
	made := &held{core: core, id: core.next.Add(1), resource: resource, done: make(chan C.int, 1)}
	var why *C.char
	result := C.rg_lock_new(core.c, (*C.char)(unsafe.Pointer(unsafe.StringData(names))), &lengths[0], C.size_t(len(lengths)),
		&terms.c, (*C.char)(unsafe.Pointer(unsafe.StringData(terms.owner))), C.size_t(len(terms.owner)),
		C.uintptr_t(made.id), &made.c, &why)
	if result != C.REDLOCK_OK {
		return nil, newError(result, resource, why)
	}
	core.mutex.Lock()
	core.locks[made.id] = made
	core.mutex.Unlock()
	return made, nil
}

// acquire returns the result, and the cause if the context ended the wait.
func (held *held) acquire(ctx context.Context, start int) (C.int, error) {
	if ctx.Err() != nil {
		return C.REDLOCK_CANCELLED, context.Cause(ctx)
	}
	defer held.core.flying.Add(-1)
	if held.core.flying.Add(1) == 1 {
		return held.acquireAlone(ctx, start)
	}
	if !held.core.submit(start, held.c) {
		return C.REDLOCK_CANCELLED, ErrClosed
	}
	result, ended := held.await(ctx.Done())
	if !ended {
		held.core.cancel(held)
		return <-held.done, context.Cause(ctx)
	}
	if result == C.REDLOCK_CANCELLED {
		return result, ErrClosed
	}
	return result, nil
}

// await returns the result of the operation. False: it did not end before `unless` was closed.
func (held *held) await(unless <-chan struct{}) (C.int, bool) {
	if unless == nil {
		return <-held.done, true
	}
	select {
	case result := <-held.done:
		return result, true
	case <-unless:
		return 0, false
	}
}

// acquireAlone blocks in C. One goroutine may: it saves two changes of the thread.
func (held *held) acquireAlone(ctx context.Context, start int) (C.int, error) {
	held.blocked.Store(true)
	defer held.blocked.Store(false)
	if held.core.closed.Load() {
		return C.REDLOCK_CANCELLED, ErrClosed
	}
	stop := context.AfterFunc(ctx, func() { held.core.cancel(held) })
	wait := C.int64_t(C.REDLOCK_WAIT_FOREVER)
	if start == C.RG_TRY {
		wait = 0
	}
	result := C.redlock_acquire(held.c, wait)
	if !stop() {
		return result, context.Cause(ctx)
	}
	if result == C.REDLOCK_CANCELLED {
		return result, ErrClosed
	}
	return result, nil
}

// setEnd is given what ends the lock's context. The lock may be lost already.
func (held *held) setEnd(end context.CancelCauseFunc) {
	held.mutex.Lock()
	defer held.mutex.Unlock()
	held.end = end
	if held.ended != nil {
		end(held.ended)
	}
}

// finish ends the lock's context; the first cause stays. The mutex is held.
func (held *held) finish(cause error) {
	if held.ended == nil {
		held.ended = cause
	}
	if held.end != nil {
		held.end(cause)
	}
}

func (held *held) lost() {
	held.mutex.Lock()
	defer held.mutex.Unlock()
	if held.c != nil {
		held.finish(held.explain(C.REDLOCK_LOST))
	}
}

// drop frees the lock, which releases it without waiting if it is held.
func (held *held) drop(cause error) {
	held.mutex.Lock()
	defer held.mutex.Unlock()
	held.finish(cause)
	if held.c == nil {
		return
	}
	held.core.mutex.Lock()
	delete(held.core.locks, held.id)
	held.core.mutex.Unlock()
	C.redlock_lock_free(held.c)
	held.c = nil
}

// why explains a failure; `cause` is that of a context which ended the wait.
func (held *held) why(result C.int, cause error) error {
	held.mutex.Lock()
	defer held.mutex.Unlock()
	err := held.explain(result)
	err.cause = cause
	return err
}

func (held *held) explain(result C.int) *Error {
	var sentence, cure *C.char
	C.rg_why(held.core.c, held.c, result, &result, &sentence, &cure)
	err := newError(result, held.resource, sentence)
	err.Cure = take(cure)
	return err
}

// Unlock ends the lock's context and releases the lock. It waits until a majority has confirmed
// that, unless ctx ends before: the release goes on then. So the lock's own context will do, also
// when it has ended. The error is [ErrLost] if the lock was lost meanwhile or is unlocked already.
func (lock *Lock) Unlock(ctx context.Context) error {
	defer runtime.KeepAlive(lock)
	lock.forgotten.Stop()
	return lock.held.operate(ctx, true, func(c *C.struct_redlock_lock) C.int {
		lock.held.mutex.Lock()
		lock.held.finish(ErrUnlocked)
		lock.held.mutex.Unlock()
		if lock.held.core.flying.Load() == 1 {
			lock.held.done <- C.redlock_release(c)
		} else {
			lock.held.core.submit(C.RG_RELEASE, c)
		}
		return C.REDLOCK_OK
	})
}

// Extend makes the rest of the lock's life at least ttl; 0 is the lock's own TTL. A lock that is
// renewed needs it only for longer ones.
func (lock *Lock) Extend(ctx context.Context, ttl time.Duration) error {
	defer runtime.KeepAlive(lock)
	return lock.held.operate(ctx, false, func(c *C.struct_redlock_lock) C.int {
		return C.rg_extend(c, milliseconds(ttl))
	})
}

// Downgrade makes a writer's lock a reader's, without a gap.
func (lock *Lock) Downgrade(ctx context.Context) error {
	defer runtime.KeepAlive(lock)
	return lock.held.operate(ctx, false, func(c *C.struct_redlock_lock) C.int { return C.rg_downgrade(c) })
}

// operate starts an operation on the lock and waits for its end. If ctx ends before, the operation
// goes on.
func (held *held) operate(ctx context.Context, last bool, start func(*C.struct_redlock_lock) C.int) error {
	if err := held.core.begin(); err != nil {
		return err
	}
	held.operation.Lock()
	over := func() {
		if last {
			held.drop(ErrUnlocked)
		}
		held.operation.Unlock()
		held.core.end()
	}
	held.mutex.Lock()
	c, ended := held.c, held.ended
	held.mutex.Unlock()
	if c == nil {
		over()
		return &Error{Code: ErrLost, Resource: held.resource, Sentence: "the lock is not held", cause: ended}
	}
	held.core.flying.Add(1)
	defer held.core.flying.Add(-1)
	result := start(c)
	unless := ctx.Done()
	if context.Cause(ctx) == ErrUnlocked {
		unless = nil // the lock's own context, which we have ended
	}
	if result == C.REDLOCK_OK {
		var ended bool
		if result, ended = held.await(unless); !ended {
			go func() {
				<-held.done
				over()
			}()
			return context.Cause(ctx)
		}
	}
	defer over()
	if last && ended != nil {
		return ended // it was lost, whatever could be deleted
	}
	if result != C.REDLOCK_OK {
		return held.why(result, nil)
	}
	return nil
}

// query asks the library about the lock; 0 if it is freed.
func query[T any](lock *Lock, ask func(*C.struct_redlock_lock) T) (answer T) {
	defer runtime.KeepAlive(lock)
	lock.held.mutex.Lock()
	defer lock.held.mutex.Unlock()
	if lock.held.c != nil {
		answer = ask(lock.held.c)
	}
	return answer
}

// Fence is the fencing token, for the resource that the lock protects: each later holder has a
// higher one. 0: the lock is not held, or the nodes are not guarded.
func (lock *Lock) Fence() int64 {
	return query(lock, func(c *C.struct_redlock_lock) int64 { return int64(C.redlock_fence(c)) })
}

// Validity is for how long the lock is surely ours, without a renewal. 0: it is not.
func (lock *Lock) Validity() time.Duration {
	return query(lock, func(c *C.struct_redlock_lock) time.Duration {
		return time.Duration(C.redlock_validity_ms(c)) * time.Millisecond
	})
}

// Slot is which of the [Slots] is held, from 1 on. 0: none.
func (lock *Lock) Slot() int {
	return query(lock, func(c *C.struct_redlock_lock) int { return int(C.redlock_slot(c)) })
}

// Token is the value of the lock's key on the nodes. "": the lock is not held.
func (lock *Lock) Token() string {
	return query(lock, func(c *C.struct_redlock_lock) string {
		var token [C.REDLOCK_TOKEN_HEX_BYTES + 4 + C.REDLOCK_OWNER_BYTES_MAX]byte
		bytes := C.redlock_token_copy(c, unsafe.Pointer(&token[0]), C.size_t(len(token)))
		return string(token[:bytes])
	})
}
