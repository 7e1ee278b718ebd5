// SPDX-License-Identifier: BSD-2-Clause

// bsm's redislock as a peer: its defaults, but for the times. ../README.md has the protocol.
// usage: peer URL
package main

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"
)

type peer struct {
	locker *redislock.Client
	held   map[string]*redislock.Lock // of the last acquisition that went well, also when it is over
}

func (p *peer) acquire(resource string, ttl, wait time.Duration) (answer, error) {
	options := &redislock.Options{}
	patience, cancel := context.WithTimeout(context.Background(), max(wait, time.Second))
	defer cancel()
	if wait > 0 {
		options.RetryStrategy = redislock.LinearBackoff(20 * time.Millisecond)
	}
	lock, err := p.locker.Obtain(patience, resource, ttl, options)
	if err != nil {
		return nil, err
	}
	p.held[resource] = lock
	return answer{"ok": true, "token": lock.Token()}, nil
}

func (p *peer) extend(resource string, ttl time.Duration) (answer, error) {
	return nil, p.held[resource].Refresh(context.Background(), ttl, nil)
}

func (p *peer) release(resource string) error {
	return p.held[resource].Release(context.Background())
}

func (p *peer) hold(string, time.Duration, time.Duration) error {
	return errors.New("it does not renew by itself")
}

func main() {
	options, err := redis.ParseURL(os.Args[1])
	must(err)
	run(answer{"name": "bsm/redislock", "version": version("github.com/bsm/redislock"), "key": "R",
		"token":    "16 random bytes in base64, 22 characters",
		"defaults": answer{"go_redis": version("github.com/redis/go-redis/v9"), "ttl": "none: it is always said", "tries": 1, "drift": "none"}},
		&peer{redislock.New(redis.NewClient(options)), map[string]*redislock.Lock{}})
}
