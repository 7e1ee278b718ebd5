// SPDX-License-Identifier: BSD-2-Clause

// redsync as one of the peers: its defaults, but for the TTL. ../README.md has the protocol.
// usage: peer cycles|holds WORKERS WARM_MS OPEN_MS TTL_MS RESOURCE   (nodes from REDLOCK_NODES)
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
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

func version(module string) string {
	info, _ := debug.ReadBuildInfo()
	for _, dependency := range info.Deps {
		if dependency.Path == module {
			return strings.TrimPrefix(dependency.Version, "v")
		}
	}
	return "?"
}

func open() *redsync.Redsync {
	var pools []redsyncredis.Pool
	for _, url := range strings.Split(os.Getenv("REDLOCK_NODES"), ",") {
		options, err := redis.ParseURL(url)
		must(err)
		client := redis.NewClient(options)
		must(client.Ping(context.Background()).Err())
		pools = append(pools, goredis.NewPool(client))
	}
	return redsync.New(pools...)
}

type counted struct {
	latencies []int64
	failed    int
}

func cycle(manager *redsync.Redsync, work *task, number int) counted {
	var all counted
	mutex := manager.NewMutex(fmt.Sprintf("%s:%d", work.resource, number), redsync.WithExpiry(work.ttl))
	for from := nowUs(); from < work.closes; {
		err := mutex.Lock()
		if err == nil {
			_, err = mutex.Unlock()
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

func runCycles(manager *redsync.Redsync, work *task) any {
	parts := make([]counted, work.workers)
	var group sync.WaitGroup
	for i := range parts {
		group.Add(1)
		go func() {
			defer group.Done()
			parts[i] = cycle(manager, work, i)
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
func runHolds(manager *redsync.Redsync, work *task) any {
	turns := [][]int64{}
	mutex := manager.NewMutex(work.resource, redsync.WithExpiry(work.ttl))
	asked := nowUs()
	for now := asked; now < work.closes; now = nowUs() {
		left, cancel := context.WithTimeout(context.Background(), time.Duration(work.closes-now)*time.Microsecond)
		err := mutex.LockContext(left)
		cancel()
		if err != nil {
			continue // it goes on waiting
		}
		got := nowUs()
		time.Sleep(time.Millisecond)
		gave := nowUs()
		_, _ = mutex.Unlock()
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
	manager := open()
	say := json.NewEncoder(os.Stdout)
	must(say.Encode(map[string]string{"version": version("github.com/go-redsync/redsync/v4"),
		"defaults": "go-redis " + version("github.com/redis/go-redis/v9") +
			", its pool; 32 tries, 50 to 250 ms apart; waits for all nodes"}))
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		os.Exit(1) // nobody wants it any more
	}
	work.opens = nowUs() + work.warm
	work.closes = work.opens + work.open
	if os.Args[1] == "holds" {
		must(say.Encode(runHolds(manager, work)))
	} else {
		must(say.Encode(runCycles(manager, work)))
	}
}
