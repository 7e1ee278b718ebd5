// SPDX-License-Identifier: BSD-2-Clause

// rueidislock as a peer: without client-side caching, which a gateway does not have, and with one key a lock in place of three.
// ../README.md has the protocol. Its keys carry a time of day: the server must have this machine's clock.
// usage: peer URL
package main

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

// An acquisition is renewed only by hold().
const never = time.Hour

type peer struct {
	server  rueidis.ClientOption
	lockers map[[2]time.Duration]rueidislock.Locker // by the TTL and the interval of renewals, which are a locker's own
	held    map[string]context.CancelFunc
}

func (p *peer) locker(ttl, renewal time.Duration) rueidislock.Locker {
	name := [2]time.Duration{ttl, renewal}
	if p.lockers[name] == nil {
		locker, err := rueidislock.NewLocker(rueidislock.LockerOption{ClientOption: p.server, KeyMajority: 1, KeyValidity: ttl,
			ExtendInterval: renewal, TryNextAfter: time.Second})
		must(err)
		p.lockers[name] = locker
	}
	return p.lockers[name]
}

func (p *peer) acquire(resource string, ttl, wait time.Duration) (answer, error) {
	for end := time.Now().Add(wait); ; time.Sleep(20 * time.Millisecond) {
		_, cancel, err := p.locker(ttl, never).TryWithContext(context.Background(), resource)
		if err == nil {
			p.held[resource] = cancel
			return nil, nil
		}
		if !time.Now().Before(end) {
			return nil, err
		}
	}
}

func (p *peer) extend(string, time.Duration) (answer, error) {
	return answer{"unsupported": true}, nil
}

// It does not say whether the lock was still there.
func (p *peer) release(resource string) error {
	p.held[resource]()
	return nil
}

func (p *peer) hold(resource string, ttl, long time.Duration) error {
	held, cancel, err := p.locker(ttl, ttl/2).TryWithContext(context.Background(), resource)
	if err != nil {
		return err
	}
	defer cancel()
	select {
	case <-held.Done():
		return errors.New("the lock was lost")
	case <-time.After(long):
		return nil
	}
}

func main() {
	server, err := rueidis.ParseURL(os.Args[1])
	must(err)
	server.DisableCache = true
	run(answer{"name": "rueidislock", "version": version("github.com/redis/rueidis"), "key": "rueidislock:0:R", "token": "24 random bytes",
		"defaults": answer{"ttl_ms": 5000, "renewal_ms": 2500, "keys": 3, "next_key_ms": 20, "drift": "none"}},
		&peer{server, map[[2]time.Duration]rueidislock.Locker{}, map[string]context.CancelFunc{}})
}
