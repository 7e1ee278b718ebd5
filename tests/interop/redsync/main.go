// SPDX-License-Identifier: BSD-2-Clause

// redsync as a peer: its defaults, but for the TTL. ../README.md has the protocol.
// usage: peer URL...
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

// What must be left of a lock before the counter is touched: Until() is there to be asked.
const leastLeft = 100 * time.Millisecond

type answer map[string]any

type peer struct {
	manager *redsync.Redsync
	held    map[string]*redsync.Mutex // of the last acquisition that went well, also when it is over
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

func open(urls []string) *redsync.Redsync {
	var pools []redsyncredis.Pool
	for _, url := range urls {
		options, err := redis.ParseURL(url)
		must(err)
		pools = append(pools, goredis.NewPool(redis.NewClient(options)))
	}
	return redsync.New(pools...)
}

func milliseconds(word string) time.Duration {
	number, err := strconv.ParseInt(word, 10, 64)
	must(err)
	return time.Duration(number) * time.Millisecond
}

func why(err error) answer {
	if err == nil {
		return answer{"ok": false, "why": "it does not say"}
	}
	return answer{"ok": false, "why": err.Error()}
}

// Its 32 tries may be over before the wait is: then it asks again.
func lockWithin(mutex *redsync.Mutex, wait time.Duration) error {
	if wait == 0 {
		return mutex.TryLock()
	}
	left, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	err := mutex.LockContext(left)
	for err != nil && left.Err() == nil {
		err = mutex.LockContext(left)
	}
	return err
}

func (p *peer) acquire(resource string, ttl, wait time.Duration) answer {
	mutex := p.manager.NewMutex(resource, redsync.WithExpiry(ttl))
	if err := lockWithin(mutex, wait); err != nil {
		return why(err)
	}
	p.held[resource] = mutex
	return answer{"ok": true, "token": mutex.Value()}
}

// The expiry is the mutex's own, so another one needs another mutex, which takes the value over.
func (p *peer) extend(resource string, ttl time.Duration) answer {
	mutex, found := p.held[resource]
	if !found {
		return answer{"ok": false, "why": "never acquired"}
	}
	mutex = p.manager.NewMutex(resource, redsync.WithExpiry(ttl), redsync.WithValue(mutex.Value()))
	if ok, err := mutex.Extend(); !ok || err != nil {
		return why(err)
	}
	p.held[resource] = mutex
	return answer{"ok": true}
}

func (p *peer) release(resource string) answer {
	mutex, found := p.held[resource]
	if !found {
		return answer{"ok": false, "why": "never acquired"}
	}
	if ok, err := mutex.Unlock(); !ok {
		return why(err)
	}
	return answer{"ok": true}
}

// Not atomic on purpose: only the lock keeps others out between the reading and the writing.
func addOne(file string) {
	text, err := os.ReadFile(file)
	must(err)
	number, err := strconv.Atoi(strings.TrimSpace(string(text)))
	must(err)
	time.Sleep(2 * time.Millisecond)
	must(os.WriteFile(file, []byte(strconv.Itoa(number+1)), 0o600))
}

// Between its turns it does something else for a while, as ours do.
func (p *peer) count(resource, file string, open, ttl time.Duration) answer {
	turns, failed := 0, 0
	mutex := p.manager.NewMutex(resource, redsync.WithExpiry(ttl))
	for closes := time.Now().Add(open); time.Now().Before(closes); {
		if mutex.Lock() != nil {
			failed++
			continue
		}
		if time.Until(mutex.Until()) < leastLeft {
			failed++
		} else {
			addOne(file)
			turns++
		}
		_, _ = mutex.Unlock() // whether a majority deleted it is no matter of the count
		time.Sleep(time.Duration(10+rand.IntN(60)) * time.Millisecond)
	}
	return answer{"turns": turns, "failed": failed}
}

func (p *peer) obey(words []string) answer {
	switch {
	case words[0] == "acquire" && len(words) == 4:
		return p.acquire(words[1], milliseconds(words[2]), milliseconds(words[3]))
	case words[0] == "extend" && len(words) == 3:
		return p.extend(words[1], milliseconds(words[2]))
	case words[0] == "release" && len(words) == 2:
		return p.release(words[1])
	case words[0] == "count" && len(words) == 5:
		seconds, err := strconv.ParseFloat(words[3], 64)
		must(err)
		return p.count(words[1], words[2], time.Duration(seconds*float64(time.Second)), milliseconds(words[4]))
	}
	return answer{"error": "no such command: " + strings.Join(words, " ")}
}

func main() {
	p := &peer{manager: open(os.Args[1:]), held: map[string]*redsync.Mutex{}}
	say := json.NewEncoder(os.Stdout)
	must(say.Encode(answer{"ready": true, "name": "redsync", "version": version("github.com/go-redsync/redsync/v4"),
		"key": "R", "token": "16 random bytes in base64, 24 characters",
		"defaults": answer{"go_redis": version("github.com/redis/go-redis/v9"), "ttl_ms": 8000, "tries": 32,
			"delay_ms": "50 to 250", "drift": "1 %", "node_timeout": "TTL/20, which go-redis does not heed while it reads: 5 s"}}))
	for commands := bufio.NewScanner(os.Stdin); commands.Scan(); {
		words := strings.Fields(commands.Text())
		if len(words) == 0 {
			continue
		}
		if words[0] == "quit" {
			return
		}
		must(say.Encode(p.obey(words)))
	}
}
