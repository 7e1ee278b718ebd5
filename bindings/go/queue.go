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

// No goroutine blocks in C. Operations are started, many with one call, and a goroutine that waits
// for the client's descriptor hands out what has ended.

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
	for _, event := range unsafe.Slice(core.box.events, core.box.count) {
		switch event.kind {
		case C.RG_DONE:
			if lock := core.find(event.lock); lock != nil {
				lock.done <- event.result
			}
		case C.RG_LOST: // perhaps of a lock that is freed, with the address of another one
			if lock := core.find(event.lock); lock != nil && lock.id == uintptr(event.id) {
				lock.lost()
			}
		case C.RG_LEADER:
			core.report(uintptr(event.id), event.leader)
		}
	}
}

func (core *core) find(c *C.struct_redlock_lock) *held {
	core.mutex.Lock()
	defer core.mutex.Unlock()
	return core.locks[c]
}

// submit leaves an operation to be started, and starts what is left there unless another goroutine
// does.
func (core *core) submit(start int, c *C.struct_redlock_lock) bool {
	core.mutex.Lock()
	if core.closed && start != C.RG_RELEASE {
		core.mutex.Unlock()
		return false
	}
	core.pending[start] = append(core.pending[start], c)
	core.waiting++
	core.mutex.Unlock()
	if core.flying.Load() > 1 {
		runtime.Gosched() // others that were answered with us come now
	}
	for core.starting.TryLock() {
		core.startPending()
		core.starting.Unlock()
		core.mutex.Lock()
		done := core.waiting == 0
		core.mutex.Unlock()
		if done {
			break
		}
	}
	return true
}

// startPending is called with core.starting.
func (core *core) startPending() {
	for start := range core.pending {
		core.mutex.Lock()
		locks := core.pending[start]
		core.pending[start] = core.spare[start][:0]
		core.spare[start] = locks
		core.waiting -= len(locks)
		core.mutex.Unlock()
		if len(locks) == 0 {
			continue
		}
		if cap(core.results) < len(locks) {
			core.results = make([]C.int, 2*len(locks))
		}
		results := core.results[:len(locks)]
		C.rg_start(C.int(start), &locks[0], C.size_t(len(locks)), &results[0])
		for i, result := range results {
			if result != C.REDLOCK_OK {
				core.find(locks[i]).done <- result
			}
		}
	}
}

// cancel ends an acquisition. One that blocks has perhaps not reached the library yet.
func (core *core) cancel(lock *held) {
	core.starting.Lock()
	core.startPending()
	core.starting.Unlock()
	for {
		lock.mutex.Lock()
		if lock.c != nil {
			C.redlock_cancel(lock.c)
		}
		lock.mutex.Unlock()
		if !lock.blocked.Load() {
			break
		}
		time.Sleep(time.Millisecond)
	}
}
