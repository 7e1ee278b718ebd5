// SPDX-License-Identifier: BSD-2-Clause

// The Go binding as one of the peers of bench/peers, whose README.md has the protocol.
// usage: peer cycles|holds WORKERS WARM_MS OPEN_MS TTL_MS RESOURCE   (nodes from REDLOCK_NODES)
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"redlock.example.org/go"
)

type task struct {
	workers       int
	warm, open    int64 // us
	ttl           time.Duration
	resource      string
	opens, closes int64
}

// Of the clock that all processes share; Go's own monotonic clock has no origin.
func nowUs() int64 {
	const clockMonotonic = 1
	var now syscall.Timespec
	syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&now)), 0)
	return now.Nano() / 1000
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "peer:", err)
		os.Exit(1)
	}
}

func open(holds bool) *redlock.Client {
	var options []redlock.ClientOption
	if !holds {
		options = append(options, redlock.NodeTimeout(5*time.Second)) // as redlock_peer.c
	}
	client, err := redlock.Open("", options...)
	must(err)
	// Once all nodes have answered, all are connected.
	for range 50 {
		lock, ctx, err := client.Lock(context.Background(), fmt.Sprintf("ready:%d", os.Getpid()))
		must(err)
		must(lock.Unlock(ctx))
	}
	return client
}

type counted struct {
	latencies []int64
	failed    int
}

func cycle(client *redlock.Client, work *task, number int) counted {
	var all counted
	resource := fmt.Sprintf("%s:%d", work.resource, number)
	for from := nowUs(); from < work.closes; {
		lock, ctx, err := client.Lock(context.Background(), resource, redlock.TTL(work.ttl))
		if err == nil {
			err = lock.Unlock(ctx)
		}
		to := nowUs()
		if err != nil {
			all.failed++
		} else if to >= work.opens && to < work.closes {
			all.latencies = append(all.latencies, to-from)
		}
		from = to
	}
	return all
}

func runCycles(client *redlock.Client, work *task) any {
	parts := make([]counted, work.workers)
	var group sync.WaitGroup
	for i := range parts {
		group.Add(1)
		go func() {
			defer group.Done()
			parts[i] = cycle(client, work, i)
		}()
	}
	group.Wait()
	var all counted
	for _, part := range parts {
		all.latencies = append(all.latencies, part.latencies...)
		all.failed += part.failed
	}
	slices.Sort(all.latencies)
	percentile := func(percent int) int64 {
		if len(all.latencies) == 0 {
			return 0
		}
		return all.latencies[(len(all.latencies)-1)*percent/100]
	}
	return map[string]any{"cycles": len(all.latencies), "open_us": work.open, "failed": all.failed,
		"p50_us": percentile(50), "p99_us": percentile(99), "max_us": percentile(100)}
}

// Each worker is a process, so one here.
func runHolds(client *redlock.Client, work *task) any {
	turns := [][]int64{}
	asked := nowUs()
	for now := asked; now < work.closes; now = nowUs() {
		left, cancel := context.WithTimeout(context.Background(), time.Duration(work.closes-now)*time.Microsecond)
		lock, _, err := client.Lock(left, work.resource, redlock.TTL(work.ttl))
		cancel()
		if err != nil {
			continue // it goes on waiting
		}
		got := nowUs()
		time.Sleep(time.Millisecond)
		gave := nowUs()
		_ = lock.Unlock(context.Background())
		turns = append(turns, []int64{asked, got, gave})
		asked = nowUs()
	}
	return map[string]any{"workers": [][][]int64{append(turns, []int64{asked, nowUs()})}}
}

func main() {
	if len(os.Args) != 7 {
		fmt.Fprintln(os.Stderr, "usage: peer cycles|holds WORKERS WARM_MS OPEN_MS TTL_MS RESOURCE")
		os.Exit(64)
	}
	var numbers [4]int64
	for i := range numbers {
		number, err := strconv.ParseInt(os.Args[2+i], 10, 64)
		must(err)
		numbers[i] = number
	}
	work := &task{workers: int(numbers[0]), warm: numbers[1] * 1000, open: numbers[2] * 1000,
		ttl: time.Duration(numbers[3]) * time.Millisecond, resource: os.Args[6]}
	client := open(os.Args[1] == "holds")
	say := json.NewEncoder(os.Stdout)
	must(say.Encode(map[string]string{"version": "0.1.0", "defaults": "as redlock"}))
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		os.Exit(1) // nobody wants it any more
	}
	work.opens = nowUs() + work.warm
	work.closes = work.opens + work.open
	if os.Args[1] == "holds" {
		must(say.Encode(runHolds(client, work)))
	} else {
		must(say.Encode(runCycles(client, work)))
	}
}
