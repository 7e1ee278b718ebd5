// SPDX-License-Identifier: BSD-2-Clause

// redsync as a peer: its defaults, but for the TTL. ../README.md has the protocol.
// usage: peer URL...
package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

// What must be left of a lock before the counter is touched: Until() is there to be asked.
const leastLeft = 100 * time.Millisecond

type peer struct {
	manager *redsync.Redsync
	held    map[string]*redsync.Mutex // of the last acquisition that went well, also when it is over
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

var errNever = errors.New("never acquired")

func why(err error) error {
	if err == nil {
		return errors.New("it does not say")
	}
	return err
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

func (p *peer) acquire(resource string, ttl, wait time.Duration) (answer, error) {
	mutex := p.manager.NewMutex(resource, redsync.WithExpiry(ttl))
	if err := lockWithin(mutex, wait); err != nil {
		return nil, err
	}
	p.held[resource] = mutex
	return answer{"ok": true, "token": mutex.Value()}, nil
}

// The expiry is the mutex's own, so another one needs another mutex, which takes the value over.
func (p *peer) extend(resource string, ttl time.Duration) (answer, error) {
	mutex, found := p.held[resource]
	if !found {
		return nil, errNever
	}
	mutex = p.manager.NewMutex(resource, redsync.WithExpiry(ttl), redsync.WithValue(mutex.Value()))
	if ok, err := mutex.Extend(); !ok || err != nil {
		return nil, why(err)
	}
	p.held[resource] = mutex
	return nil, nil
}

func (p *peer) release(resource string) error {
	mutex, found := p.held[resource]
	if !found {
		return errNever
	}
	if ok, err := mutex.Unlock(); !ok {
		return why(err)
	}
	return nil
}

func (p *peer) hold(string, time.Duration, time.Duration) error {
	return errors.New("it does not renew")
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

func main() {
	run(answer{"name": "redsync", "version": version("github.com/go-redsync/redsync/v4"),
		"key": "R", "token": "16 random bytes in base64, 24 characters",
		"defaults": answer{"go_redis": version("github.com/redis/go-redis/v9"), "ttl_ms": 8000, "tries": 32,
			"delay_ms": "50 to 250", "drift": "1 %", "node_timeout": "TTL/20, which go-redis does not heed while it reads: 5 s"}},
		&peer{manager: open(os.Args[1:]), held: map[string]*redsync.Mutex{}})
}
