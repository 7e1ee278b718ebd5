// SPDX-License-Identifier: BSD-2-Clause

// linear reads histories of locks and says whether each could be that of one lock: porcupine looks for an order of all
// operations in which each takes effect between its call and its return. One line of JSON for each history, an array of
// {"id", "asked", "at", "until", "fence"} (grants: asked for, known, and inside until then).
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/anishathalye/porcupine"
)

type grant struct {
	ID    int   `json:"id"`
	Asked int64 `json:"asked"`
	At    int64 `json:"at"`
	Until int64 `json:"until"`
	Fence int64 `json:"fence"`
}

type operation struct {
	acquire bool
	id      int
	fence   int64
}

// Who holds the lock (0: nobody), and the highest fencing token that was granted.
type lock struct {
	holder int
	fence  int64
}

var model = porcupine.Model{
	Init: func() interface{} { return lock{} },
	Step: func(state, input, _ interface{}) (bool, interface{}) {
		now, op := state.(lock), input.(operation)
		if !op.acquire {
			return now.holder == op.id, lock{0, now.fence}
		}
		if now.holder != 0 || (op.fence > 0 && op.fence <= now.fence) {
			return false, now
		}
		return true, lock{op.id, op.fence}
	},
	Equal: func(one, other interface{}) bool { return one == other },
}

// A holder is inside until then; its lock ends at any time after that.
func operations(grants []grant) []porcupine.Operation {
	var last int64
	for _, each := range grants {
		last = max64(last, max64(each.At, each.Until)+1)
	}
	var all []porcupine.Operation
	for _, each := range grants {
		all = append(all,
			porcupine.Operation{ClientId: 2 * each.ID, Input: operation{true, each.ID, each.Fence}, Call: each.Asked, Return: each.At},
			porcupine.Operation{ClientId: 2*each.ID + 1, Input: operation{false, each.ID, 0}, Call: each.Until, Return: last})
	}
	return all
}

func max64(a, b int64) int64 {
	if a > b {
		return a
	}
	return b
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(make([]byte, 1<<16), 1<<24)
	counts := map[porcupine.CheckResult]int{}
	for lines.Scan() {
		var grants []grant
		if err := json.Unmarshal(lines.Bytes(), &grants); err != nil {
			fmt.Fprintln(os.Stderr, "linear:", err)
			os.Exit(2)
		}
		result := porcupine.CheckOperationsTimeout(model, operations(grants), 5*time.Second)
		counts[result]++
		if result == porcupine.Illegal {
			fmt.Println("not linearizable:", lines.Text())
		}
	}
	fmt.Printf("%d histories linearizable, %d not, %d not decided in 5 s\n", counts[porcupine.Ok], counts[porcupine.Illegal],
		counts[porcupine.Unknown])
	if counts[porcupine.Illegal] > 0 {
		os.Exit(1)
	}
}
