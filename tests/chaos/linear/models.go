// SPDX-License-Identifier: BSD-2-Clause

package main

import "github.com/anishathalye/porcupine"

type kind int

const (
	acquire kind = iota
	downgrade
	release
)

type operation struct {
	kind kind
	grant
}

const (
	holdersMax = 63
	slotsMax   = 8
)

// A lock with readers and writers: who writes (0: nobody), who reads (bits), and the highest fencing token of each kind.
type lock struct {
	writer      int
	readers     uint64
	wrote, read int64
}

// A lock that downgrades after it has ended changes nothing: the call came too late.
func (now lock) step(op operation) (bool, lock) {
	bit := uint64(1) << op.ID
	switch {
	case op.kind == acquire && op.Reads:
		if now.writer != 0 || (op.Fence > 0 && (op.Fence < now.wrote || op.Fence < now.read)) {
			return false, now
		}
		now.readers |= bit
		now.read = max(now.read, op.Fence)
	case op.kind == acquire:
		if now.writer != 0 || now.readers != 0 || (op.Fence > 0 && (op.Fence <= now.wrote || op.Fence <= now.read)) {
			return false, now
		}
		now.writer = op.ID
		now.wrote = op.Fence
	case op.kind == downgrade:
		if now.writer == op.ID {
			now.writer = 0
			now.readers |= bit
			now.read = max(now.read, op.Fence)
		}
	default:
		if now.writer != op.ID && now.readers&bit == 0 {
			return false, now
		}
		if now.writer == op.ID {
			now.writer = 0
		}
		now.readers &^= bit
	}
	return true, now
}

var readersAndWriters = porcupine.Model{
	Init:  func() interface{} { return lock{} },
	Step:  func(state, input, _ interface{}) (bool, interface{}) { return state.(lock).step(input.(operation)) },
	Equal: func(one, other interface{}) bool { return one == other },
}

// A semaphore: who has each slot (0: nobody), and the highest fencing token that was granted for it.
type slots struct {
	holder [slotsMax + 1]int
	fence  [slotsMax + 1]int64
}

func (now slots) step(op operation, count int) (bool, slots) {
	if op.Slot < 1 || op.Slot > count {
		return false, now
	}
	if op.kind == release {
		fits := now.holder[op.Slot] == op.ID
		now.holder[op.Slot] = 0
		return fits, now
	}
	if op.kind == downgrade || now.holder[op.Slot] != 0 || (op.Fence > 0 && op.Fence <= now.fence[op.Slot]) {
		return false, now
	}
	now.holder[op.Slot], now.fence[op.Slot] = op.ID, op.Fence
	return true, now
}

func semaphore(count int) porcupine.Model {
	return porcupine.Model{
		Init: func() interface{} { return slots{} },
		Step: func(state, input, _ interface{}) (bool, interface{}) {
			return state.(slots).step(input.(operation), count)
		},
		Equal: func(one, other interface{}) bool { return one == other },
	}
}
