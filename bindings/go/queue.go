// SPDX-License-Identifier: BSD-2-Clause

package redlock

// #include "shim.h"
import "C"

import (
	"os"
	"runtime"
	"syscall"
	"time"
	"unsafe"
)

// Of all goroutines that use a client, at most one blocks in C (start). The operations of the
// others are started, many with one call, and a goroutine that waits for the client's descriptor
// hands out what has ended.

// listen starts that goroutine. It gets a copy of the descriptor, because the runtime's poller
// closes what it is given.
func (core *core) listen() error {
	fd, _, failed := syscall.Syscall(syscall.SYS_FCNTL, uintptr(C.redlock_client_fd(core.c)),
		syscall.F_DUPFD_CLOEXEC, 0)
	if failed != 0 {
		return os.NewSyscallError("fcntl", failed)
	}
	core.file = os.NewFile(fd, "redlock")
	raw, err := core.file.SyscallConn()
	if err != nil {
		return err
	}
	core.listening = make(chan struct{})
	go func() {
		defer close(core.listening)
		// It returns when the file is closed.
		_ = raw.Read(func(uintptr) bool {
			core.process()
			return false
		})
	}()
	return nil
}

func (core *core) stopListening() {
	_ = core.file.Close()
	<-core.listening
}

// process runs the callbacks that wait in C, and hands out their events.
func (core *core) process() {
	core.processing.Lock()
	defer core.processing.Unlock()
	C.rg_process(core.c, core.box)
	if core.box.count == 0 {
		return
	}
	events := unsafe.Slice(core.box.events, core.box.count)
	for i, lock := range core.find(events) {
		switch {
		case events[i].kind == C.RG_LEADER:
			core.report(uintptr(events[i].id), events[i].leader)
		case lock == nil:
		case events[i].kind == C.RG_DONE:
			lock.deliver(events[i].result)
		default:
			lock.lost()
		}
	}
}

func (core *core) find(events []C.struct_rg_event) []*held {
	core.mutex.Lock()
	defer core.mutex.Unlock()
	core.found = core.found[:0]
	done := 0
	for i := range events {
		core.found = append(core.found, core.locks[uintptr(events[i].id)])
		if events[i].kind == C.RG_DONE {
			done++
		}
	}
	if done > 1 {
		core.expect(done)
	}
	return core.found
}

// Goroutines that were answered together are mostly back with their next operations within
// microseconds. What they start then is sent together: one write to each node, not one for each of
// them. If they have other work to do, it is in vain to wait for them, and the next turns do not.
const (
	patience     = 150 * time.Microsecond
	patienceEach = 25 * time.Microsecond
	backoffMax   = 256
)

// expect counts them. The last of them starts what all have brought; if they take too long, notBack
// does. It is called with core.mutex.
func (core *core) expect(count int) {
	core.spared = max(core.spared-1, 0)
	core.returning += count
	if core.spared == 0 {
		core.late.Reset(patience + time.Duration(core.returning)*patienceEach)
	}
}

func (core *core) notBack() {
	core.mutex.Lock()
	if core.returning > 0 {
		core.returning = 0
		core.backoff = min(2*core.backoff+1, backoffMax)
		core.spared = core.backoff
	}
	core.mutex.Unlock()
	core.flush()
}

// submit leaves an operation to be started.
func (core *core) submit(kind int, lock *held) {
	core.mutex.Lock()
	if core.closed.Load() && kind != C.RG_RELEASE {
		core.mutex.Unlock()
		lock.deliver(C.REDLOCK_CANCELLED)
		return
	}
	core.pending[kind] = append(core.pending[kind], lock.c)
	core.waiting.Store(true)
	if core.returning == 1 {
		core.backoff /= 2
	}
	core.returning = max(core.returning-1, 0)
	later := core.returning > 0 && core.spared == 0
	core.mutex.Unlock()
	if later {
		return
	}
	if core.flying.Load() > 1 {
		runtime.Gosched()
	}
	core.flush()
}

// flush starts what waits, unless another goroutine does.
func (core *core) flush() {
	for core.waiting.Load() && core.starting.TryLock() {
		core.startPending()
		core.starting.Unlock()
	}
}

// startPending is called with core.starting.
func (core *core) startPending() {
	core.waiting.Store(false)
	core.mutex.Lock()
	core.pending, core.spare = core.spare, core.pending
	core.mutex.Unlock()
	for start, locks := range core.spare {
		core.spare[start] = locks[:0]
		if len(locks) == 0 {
			continue
		}
		if cap(core.results) < len(locks) {
			core.results = make([]C.int, 2*len(locks))
		}
		C.rg_start(C.int(start), &locks[0], C.size_t(len(locks)), &core.results[0])
		for i, c := range locks {
			if core.results[i] == C.REDLOCK_OK {
				continue
			}
			core.mutex.Lock()
			refused := core.locks[uintptr(C.redlock_lock_context(c))]
			core.mutex.Unlock()
			refused.deliver(core.results[i])
		}
	}
}

// cancel ends an acquisition. One that blocks has perhaps not reached the library yet.
func (core *core) cancel(lock *held) {
	core.starting.Lock()
	core.startPending()
	core.starting.Unlock()
	core.flush() // what others have left meanwhile
	for delay := time.Millisecond; ; delay *= 2 {
		lock.mutex.Lock()
		if lock.c != nil {
			C.redlock_cancel(lock.c)
		}
		lock.mutex.Unlock()
		if !lock.blocked.Load() {
			break
		}
		time.Sleep(delay)
	}
}
