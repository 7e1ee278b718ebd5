// SPDX-License-Identifier: BSD-2-Clause

// linear reads histories of locks and says whether each could be that of one lock: porcupine looks for an order of all
// operations in which each takes effect between its call and its return. One line of JSON for each history. The last line that
// it writes has three numbers: how many it accepted, rejected, and did not decide in time.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/anishathalye/porcupine"
)

// A grant was asked for, known at `at`, and inside until then.
type grant struct {
	ID         int   `json:"id"`
	Asked      int64 `json:"asked"`
	At         int64 `json:"at"`
	Until      int64 `json:"until"`
	Fence      int64 `json:"fence"`
	Reads      bool  `json:"reads"`
	Downgraded int64 `json:"downgraded"` // when a writer called to become a reader; 0: it did not
	Slot       int   `json:"slot"`       // which slot it has, from 1; 0: the lock is no semaphore
}

type history struct {
	Name   string  `json:"name"`
	Slots  int     `json:"slots"` // 0: a lock with readers and writers
	Grants []grant `json:"grants"`
}

const decideWithin = 5 * time.Second

// A holder is inside until then; its lock ends at any time after that, and a downgrade takes effect at any time after its call.
func operations(grants []grant) []porcupine.Operation {
	var last int64
	for _, each := range grants {
		last = max(last, each.At+1, each.Until+1)
	}
	var all []porcupine.Operation
	client := 0
	add := func(kind kind, each grant, from, to int64) {
		all = append(all, porcupine.Operation{ClientId: client, Input: operation{kind, each}, Call: from, Return: to})
		client++
	}
	for _, each := range grants {
		add(acquire, each, each.Asked, each.At)
		if each.Downgraded > 0 {
			add(downgrade, each, each.Downgraded, last)
		}
		add(release, each, each.Until, last)
	}
	return all
}

func check(told history) porcupine.CheckResult {
	model := readersAndWriters
	if told.Slots > 0 {
		model = semaphore(told.Slots)
	}
	return porcupine.CheckOperationsTimeout(model, operations(told.Grants), decideWithin)
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(make([]byte, 1<<16), 1<<24)
	counts := map[porcupine.CheckResult]int{}
	for lines.Scan() {
		var told history
		if err := json.Unmarshal(lines.Bytes(), &told); err != nil {
			fmt.Fprintln(os.Stderr, "linear:", err)
			os.Exit(2)
		}
		if len(told.Grants) > holdersMax || told.Slots > slotsMax {
			fmt.Fprintf(os.Stderr, "linear: %s: too many grants or slots\n", told.Name)
			os.Exit(2)
		}
		result := check(told)
		counts[result]++
		if result == porcupine.Illegal {
			fmt.Println("not linearizable:", lines.Text())
		}
	}
	fmt.Println(counts[porcupine.Ok], counts[porcupine.Illegal], counts[porcupine.Unknown])
	if counts[porcupine.Illegal] > 0 {
		os.Exit(1)
	}
}
