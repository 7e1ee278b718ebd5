// SPDX-License-Identifier: BSD-2-Clause

package redlock

// #include "shim.h"
import "C"

import (
	"context"
	"maps"
	"slices"
	"time"
	"unsafe"
)

// Leadership says what an observer knows.
type Leadership int

const (
	LeaderUnknown Leadership = C.REDLOCK_LEADER_UNKNOWN // too few nodes answer, or SureFor has passed
	LeaderNone    Leadership = C.REDLOCK_LEADER_NONE    // nobody leads
	LeaderKnown   Leadership = C.REDLOCK_LEADER_KNOWN
)

// A Leader is what an observer sees. Unless State is LeaderKnown, the rest is zero.
type Leader struct {
	State Leadership
	Term  int64  // the fence of its lock; the terms that an observer sees never fall
	ID    string // the [Owner] of its lock
	// Until then no other client leads, unless this one resigns or an operator breaks its lock.
	SureUntil time.Time
}

type observer struct {
	client  *Client // not collected meanwhile
	id      uintptr
	c       *C.struct_redlock_observer
	leaders chan Leader // holds the newest
}

// Observe sends who leads, now and after each change, until ctx or the client ends; then the
// channel is closed. A reader that is late gets the newest only. It takes nothing.
func (client *Client) Observe(ctx context.Context, resource string) (<-chan Leader, error) {
	if err := client.begin(); err != nil {
		return nil, err
	}
	defer client.core.end()
	core := client.core
	seen := &observer{client: client, id: core.next.Add(1), leaders: make(chan Leader, 1)}
	core.mutex.Lock()
	core.observers[seen.id] = seen
	core.mutex.Unlock()
	var why *C.char
	result := C.rg_observe(core.c, (*C.char)(unsafe.Pointer(unsafe.StringData(resource))), C.size_t(len(resource)),
		C.uintptr_t(seen.id), &seen.c, &why)
	if result != C.REDLOCK_OK {
		core.mutex.Lock()
		delete(core.observers, seen.id)
		core.mutex.Unlock()
		return nil, newError(result, resource, why)
	}
	context.AfterFunc(ctx, seen.stop)
	return seen.leaders, nil
}

// stop may be called twice.
func (seen *observer) stop() {
	core := seen.client.core
	core.processing.Lock() // no event is on its way
	defer core.processing.Unlock()
	core.mutex.Lock()
	_, runs := core.observers[seen.id]
	delete(core.observers, seen.id)
	core.mutex.Unlock()
	if runs {
		C.redlock_observe_stop(seen.c)
		close(seen.leaders)
	}
}

// report is called with core.processing.
func (core *core) report(id uintptr, c *C.struct_rg_leader) {
	defer C.free(unsafe.Pointer(c))
	core.mutex.Lock()
	seen := core.observers[id]
	core.mutex.Unlock()
	if seen == nil {
		return
	}
	leader := Leader{State: Leadership(c.state), Term: int64(c.term),
		ID: C.GoStringN(&c.id[0], C.int(c.id_bytes))}
	if c.state == C.REDLOCK_LEADER_KNOWN {
		leader.SureUntil = time.Now().Add(time.Duration(c.sure_until_ns - C.redlock_now_ns()))
	}
	select {
	case <-seen.leaders:
	default:
	}
	seen.leaders <- leader
}

func (core *core) allObservers() []*observer {
	core.mutex.Lock()
	defer core.mutex.Unlock()
	return slices.Collect(maps.Values(core.observers))
}
