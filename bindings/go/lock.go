// SPDX-License-Identifier: BSD-2-Clause

package redlock

// #include "shim.h"
import "C"

import (
	"context"
	"fmt"
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
	ttl      time.Duration
	outer    context.Context // that Lock was given
	done     chan C.int      // the result of the operation under way
	blocked  atomic.Bool     // a goroutine is in rg_block()

	operation chan struct{} // has an element for as long as one lasts
	mutex     sync.Mutex
	c         *C.struct_redlock_lock // nil: freed
	unlocked  bool
	end       context.CancelCauseFunc
	ended     error // why
	lookout   *time.Timer
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
	bad   error
}

// A zero means to the library that the option is not set.
func milliseconds(option string, d time.Duration, bad *error) C.int64_t {
	if d < time.Millisecond {
		*bad = badArgument(fmt.Sprintf("%s is %v; it must be at least 1ms", option, d))
	}
	return C.int64_t(d.Milliseconds())
}

// TTL is how long the nodes keep the lock when its holder is gone. 30 s by default; it is renewed
// each third of that.
func TTL(ttl time.Duration) Option {
	return func(terms *lockTerms) { terms.c.ttl_ms = milliseconds("TTL", ttl, &terms.bad) }
}

// MaxHold limits how long the lock is renewed.
func MaxHold(limit time.Duration) Option {
	return func(terms *lockTerms) { terms.c.hold_ms_max = milliseconds("MaxHold", limit, &terms.bad) }
}

// NoRenewal leaves it to [Lock.Extend] to keep the lock for longer than its TTL.
func NoRenewal() Option { return func(terms *lockTerms) { terms.c.no_renewal = 1 } }

// Shared makes the lock a reader's: any number of them hold it, and meanwhile no writer.
func Shared() Option { return func(terms *lockTerms) { terms.c.shared = 1 } }

// Slots makes the lock one of so many, at most 64, that the resource has. All clients give the same
// number.
func Slots(count int) Option {
	return func(terms *lockTerms) {
		if count < 1 || count > C.REDLOCK_SLOTS_MAX {
			terms.bad = badArgument(fmt.Sprintf("Slots is %d; it must be between 1 and %d", count, C.REDLOCK_SLOTS_MAX))
		}
		terms.c.slots = C.uint32_t(count)
	}
}

// Owner is a text of at most 128 bytes that `redlock show` shows, and that observers get as the
// leader's ID.
func Owner(text string) Option { return func(terms *lockTerms) { terms.owner = text } }

// Also adds resources, at most 64 in all: the lock has all of them, or none.
func Also(resources ...string) Option {
	return func(terms *lockTerms) { terms.also = append(terms.also, resources...) }
}

// Lock waits until it has the lock, or until ctx ends. The context that it returns is ctx until the
// lock is unlocked or lost; [context.Cause] then says why. The error of a wait that ctx ends is that
// of ctx, and also [ErrHeld], [ErrNoQuorum] or what else kept the lock away. What the wait has set
// on nodes is deleted, in the background if they are slow.
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
	began := time.Now()
	ours, err := client.core.newLock(ctx, resource, &terms)
	if err == nil {
		err = ours.acquire(ctx, start)
	}
	if err != nil {
		return nil, ctx, err
	}
	lock := &Lock{client: client, held: ours}
	inner, end := context.WithCancelCause(ctx)
	ours.setEnd(end, began)
	lock.forgotten = runtime.AddCleanup(lock, func(held *held) { held.drop(ErrForgotten) }, ours)
	return lock, &lockContext{inner, lock}, nil
}

func (core *core) newLock(ctx context.Context, resource string, terms *lockTerms) (*held, error) {
	if terms.bad != nil {
		return nil, terms.bad
	}
	names, lengths := resource, make([]C.size_t, 0, 4)
	lengths = append(lengths, C.size_t(len(resource)))
	for _, also := range terms.also {
		names += also
		lengths = append(lengths, C.size_t(len(also)))
	}
	made := &held{core: core, id: core.next.Add(1), resource: resource, outer: ctx,
		done: make(chan C.int, 1), operation: make(chan struct{}, 1)}
	var why *C.char
	var ttl C.int64_t
	result := C.rg_lock_new(core.c, (*C.char)(unsafe.Pointer(unsafe.StringData(names))), &lengths[0], C.size_t(len(lengths)),
		&terms.c, (*C.char)(unsafe.Pointer(unsafe.StringData(terms.owner))), C.size_t(len(terms.owner)),
		C.uintptr_t(made.id), &made.c, &ttl, &why)
	if result != C.REDLOCK_OK {
		return nil, newError(result, resource, why)
	}
	made.ttl = time.Duration(ttl) * time.Millisecond
	core.mutex.Lock()
	core.locks[made.id] = made
	core.mutex.Unlock()
	return made, nil
}

// How long a cancelled acquisition may take to leave nothing behind, before it goes on doing so in
// the background.
const tidyUp = 10 * time.Millisecond

// acquire drops the lock if it returns an error.
func (held *held) acquire(ctx context.Context, kind int) error {
	core := held.core
	if ctx.Err() != nil {
		err := &Error{Code: ErrCancelled, Resource: held.resource, Sentence: "no node was asked", cause: context.Cause(ctx)}
		held.drop(err)
		return err
	}
	defer core.flying.Add(-1)
	held.start(kind, core.flying.Add(1) == 1, ctx.Done())
	var cause error
	result, answered := held.await(ctx.Done())
	if !answered {
		cause = context.Cause(ctx)
		core.cancel(held)
		patience, stop := context.WithTimeout(context.Background(), tidyUp)
		result, answered = held.await(patience.Done())
		stop()
	}
	switch {
	case cause == nil && result == C.REDLOCK_OK:
		return nil
	case cause == nil && result == C.REDLOCK_CANCELLED:
		cause = ErrClosed
	case result == C.REDLOCK_OK:
		result = C.REDLOCK_CANCELLED
	}
	err := held.why(result, cause, !answered)
	held.drop(err)
	return err
}

// start begins to acquire or to release. If no other goroutine uses the client, and nothing may end
// the wait, this one blocks in C, which saves changes of the thread.
func (held *held) start(kind int, alone bool, ends <-chan struct{}) {
	if !alone || ends != nil {
		held.core.submit(kind, held)
		return
	}
	held.blocked.Store(true)
	defer held.blocked.Store(false)
	result := C.int(C.REDLOCK_CANCELLED)
	if kind == C.RG_RELEASE || !held.core.closed.Load() {
		result = C.rg_block(C.int(kind), held.c)
	}
	held.deliver(result)
}

// deliver hands out the result of the operation under way. A lock that is freed has one already.
func (held *held) deliver(result C.int) {
	select {
	case held.done <- result:
	default:
	}
}

// await returns the result of the operation. False: it did not end before `unless` was closed.
func (held *held) await(unless <-chan struct{}) (C.int, bool) {
	select {
	case result := <-held.done:
		return result, true
	case <-unless:
		return C.REDLOCK_CANCELLED, false
	}
}

// setEnd is given what ends the lock's context. The lock may be lost already.
func (held *held) setEnd(end context.CancelCauseFunc, began time.Time) {
	held.mutex.Lock()
	defer held.mutex.Unlock()
	held.end = end
	if held.ended != nil {
		end(held.ended)
		return
	}
	held.lookout = time.AfterFunc(held.ttl/2-time.Since(began), held.look) // it is not lost before
}

// look ends the context of a lost lock. The event that the lock is lost does that too; but on a
// busy scheduler it waits until all goroutines have had their turn, and a timer does not.
func (held *held) look() {
	held.mutex.Lock()
	defer held.mutex.Unlock()
	if held.ended != nil {
		return
	}
	// A little before the library's lost_margin_ms: at that time its thread has the mutex.
	margin := min(held.ttl/9, 1050*time.Millisecond)
	if safe := time.Duration(C.rg_left_ns(held.c)) - margin; safe > 0 {
		held.lookout.Reset(safe)
	} else {
		held.finish(held.explain(C.REDLOCK_LOST, true))
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
	if held.lookout != nil {
		held.lookout.Stop()
	}
}

func (held *held) lost() {
	held.mutex.Lock()
	defer held.mutex.Unlock()
	if held.ended == nil {
		held.finish(held.explain(C.REDLOCK_LOST, false))
	}
}

// drop frees the lock, which releases it without waiting if it is held. The operation under way, if
// there is one, ends.
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
	held.deliver(C.REDLOCK_CANCELLED)
}

// why explains a failure; `cause` is that of a context which ended the wait. With `silent`, nodes
// that have not answered yet are reported.
func (held *held) why(result C.int, cause error, silent bool) error {
	held.mutex.Lock()
	defer held.mutex.Unlock()
	if held.c == nil {
		return held.gone()
	}
	err := held.explain(result, silent)
	err.cause = cause
	return err
}

func (held *held) explain(result C.int, silent bool) *Error {
	var sentence, cure *C.char
	C.rg_why(held.core.c, held.c, result, C.bool(silent), &result, &sentence, &cure)
	err := newError(result, held.resource, sentence)
	err.Cure = take(cure)
	return err
}

// gone is the error of an operation on a lock that is unlocked, forgotten or closed.
func (held *held) gone() *Error {
	return &Error{Code: ErrLost, Resource: held.resource, Sentence: "the lock is not held", cause: held.ended}
}

// Unlock ends the lock's context and releases the lock. It waits until a majority has confirmed
// that, unless ctx ends before: the release goes on then. So the lock's own context will do, also
// when it has ended. The error is [ErrLost] if the lock was lost meanwhile or is unlocked already.
func (lock *Lock) Unlock(ctx context.Context) error {
	defer runtime.KeepAlive(lock)
	lock.forgotten.Stop()
	held := lock.held
	if err := held.core.begin(); err != nil {
		return err
	}
	past := ctx.Err() != nil
	held.mutex.Lock()
	again, ended, gone := held.unlocked, held.ended, held.gone()
	held.unlocked = true
	held.finish(ErrUnlocked)
	held.mutex.Unlock()
	if again {
		held.core.end()
		return gone
	}
	if !past && context.Cause(ctx) == ErrUnlocked {
		var stop context.CancelFunc
		ctx, stop = held.still(ctx)
		defer stop()
	}
	if !held.claim(ctx) { // an extension is under way
		held.drop(ErrUnlocked)
		held.core.end()
		return context.Cause(ctx)
	}
	err := held.operate(ctx, func(alone bool) C.int {
		held.start(C.RG_RELEASE, alone, ctx.Done())
		return C.REDLOCK_OK
	}, func() { held.drop(ErrUnlocked) })
	if ended != nil {
		return ended // it was lost, whatever could be deleted
	}
	return err
}

// still replaces a context that has ended with the lock's own, by what would have ended it.
func (held *held) still(ctx context.Context) (context.Context, context.CancelFunc) {
	if deadline, has := ctx.Deadline(); has {
		return context.WithDeadline(held.outer, deadline)
	}
	return held.outer, func() {}
}

// Extend makes the rest of the lock's life at least ttl; 0 is the lock's own TTL. A lock that is
// renewed needs it only for longer ones.
func (lock *Lock) Extend(ctx context.Context, ttl time.Duration) error {
	defer runtime.KeepAlive(lock)
	rest := C.int64_t(0)
	if ttl != 0 {
		var bad error
		if rest = milliseconds("ttl", ttl, &bad); bad != nil {
			return bad
		}
	}
	return lock.held.extend(ctx, func(c *C.struct_redlock_lock) C.int { return C.rg_extend(c, rest) })
}

// Downgrade makes a writer's lock a reader's, without a gap.
func (lock *Lock) Downgrade(ctx context.Context) error {
	defer runtime.KeepAlive(lock)
	return lock.held.extend(ctx, func(c *C.struct_redlock_lock) C.int { return C.rg_downgrade(c) })
}

func (held *held) extend(ctx context.Context, start func(*C.struct_redlock_lock) C.int) error {
	if err := held.core.begin(); err != nil {
		return err
	}
	if !held.claim(ctx) {
		held.core.end()
		return context.Cause(ctx)
	}
	return held.operate(ctx, func(bool) C.int {
		held.mutex.Lock()
		defer held.mutex.Unlock()
		if held.c == nil {
			return C.REDLOCK_LOST
		}
		return start(held.c)
	}, func() {})
}

// claim waits until no other operation on the lock is under way. False: ctx ended before.
func (held *held) claim(ctx context.Context) bool {
	select {
	case held.operation <- struct{}{}:
		return true
	default:
	}
	select {
	case held.operation <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// operate starts an operation on a claimed lock and waits for its end. If ctx ends before, the
// operation goes on. Then it ends the claim and the use of the client.
func (held *held) operate(ctx context.Context, start func(alone bool) C.int, last func()) error {
	over := func() {
		last()
		held.core.flying.Add(-1)
		<-held.operation
		held.core.end()
	}
	result := start(held.core.flying.Add(1) == 1)
	if result == C.REDLOCK_OK {
		var answered bool
		if result, answered = held.await(ctx.Done()); !answered {
			go func() {
				<-held.done
				over()
			}()
			return context.Cause(ctx)
		}
	}
	defer over()
	if result != C.REDLOCK_OK {
		return held.why(result, nil, false)
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
