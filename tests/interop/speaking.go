// SPDX-License-Identifier: BSD-2-Clause

// The protocol of README.md for peers in Go: a peer says how it takes, extends and releases a lock.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"time"
)

type answer map[string]any

// What a peer does with the locks that it has taken, by resource. An error is a failure.
type client interface {
	acquire(resource string, ttl, wait time.Duration) (answer, error)
	extend(resource string, ttl time.Duration) (answer, error)
	release(resource string) error
	// Holds by the client's own renewal; an error if the lock is lost meanwhile.
	hold(resource string, ttl, long time.Duration) error
}

// A peer that knows how long its lock is good for counts by itself.
type counter interface {
	count(resource, file string, open, ttl time.Duration) answer
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

func duration(word string, unit time.Duration) time.Duration {
	number, err := strconv.ParseFloat(word, 64)
	must(err)
	return time.Duration(number * float64(unit))
}

func said(given answer, err error) answer {
	if err != nil {
		return answer{"ok": false, "why": err.Error()}
	}
	if given == nil {
		given = answer{"ok": true}
	}
	return given
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
func count(peer client, resource, file string, open, ttl time.Duration) answer {
	turns, failed := 0, 0
	for closes := time.Now().Add(open); time.Now().Before(closes); {
		if _, err := peer.acquire(resource, ttl, time.Until(closes)); err != nil {
			failed++
			continue
		}
		addOne(file)
		turns++
		_ = peer.release(resource) // it has counted, whether or not the server knows that it is over
		time.Sleep(time.Duration(10+rand.IntN(60)) * time.Millisecond)
	}
	return answer{"turns": turns, "failed": failed}
}

func obey(peer client, words []string) answer {
	switch {
	case words[0] == "acquire" && len(words) == 4:
		return said(peer.acquire(words[1], duration(words[2], time.Millisecond), duration(words[3], time.Millisecond)))
	case words[0] == "extend" && len(words) == 3:
		return said(peer.extend(words[1], duration(words[2], time.Millisecond)))
	case words[0] == "hold" && len(words) == 4:
		return said(nil, peer.hold(words[1], duration(words[2], time.Millisecond), duration(words[3], time.Second)))
	case words[0] == "release" && len(words) == 2:
		return said(nil, peer.release(words[1]))
	case words[0] == "count" && len(words) == 5:
		open, ttl := duration(words[3], time.Second), duration(words[4], time.Millisecond)
		if own, has := peer.(counter); has {
			return own.count(words[1], words[2], open, ttl)
		}
		return count(peer, words[1], words[2], open, ttl)
	}
	return answer{"error": "no such command: " + strings.Join(words, " ")}
}

func run(greeting answer, peer client) {
	say := json.NewEncoder(os.Stdout)
	greeting["ready"] = true
	must(say.Encode(greeting))
	for commands := bufio.NewScanner(os.Stdin); commands.Scan(); {
		words := strings.Fields(commands.Text())
		if len(words) == 0 {
			continue
		}
		if words[0] == "quit" {
			return
		}
		must(say.Encode(obey(peer, words)))
	}
}
