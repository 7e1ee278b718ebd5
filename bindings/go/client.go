// SPDX-License-Identifier: BSD-2-Clause

// Package redlock holds locks on a majority of independent Redis or Valkey servers.
//
//	client, err := redlock.Open("redis://db1,redis://db2,redis://db3")
//	...
//	lock, ctx, err := client.Lock(ctx, "nightly", redlock.TTL(30*time.Second))
//	if err != nil {
//		return err
//	}
//	defer lock.Unlock(ctx)
//	return backup(ctx)
//
// The context that Lock returns ends when the lock is lost: a second before its validity ends, or a
// tenth of the TTL if that is less. A program that is stopped, or whose goroutines wait long for a
// processor, ends it late; so ask [Lock.Validity] before a write, and give [Lock.Fence] to the
// resource.
//
// It is a thin layer over the C library libredlock, which renews locks on a thread of its own: a
// busy Go scheduler loses none.
package redlock

// #include "shim.h"
//
// #cgo noescape rg_start
// #cgo nocallback rg_start
// #cgo noescape rg_process
// #cgo nocallback rg_process
// #cgo noescape rg_lock_new
// #cgo nocallback rg_lock_new
// #cgo nocallback rg_left_ns
// #cgo nocallback rg_block
import "C"

import (
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"
)

// A Client is a connection to each of the nodes. All its methods may be called from any goroutine.
type Client struct {
	*core
	forgotten runtime.Cleanup
}

// The part of a client that the garbage collector does not watch.
type core struct {
	c    *C.struct_redlock_client
	over chan struct{}

	file      *os.File // a copy of the client's descriptor, for the runtime's poller
	listening chan struct{}

	use    sync.RWMutex // all calls that use the client read
	closed atomic.Bool
	next   atomic.Uintptr // the last id

	// The operations that wait to be started. Whoever gets `starting` starts them for all.
	starting       sync.Mutex
	pending, spare [3][]*C.struct_redlock_lock // by rg_start
	results        []C.int
	waiting        atomic.Bool
	flying         atomic.Int32 // operations that somebody waits for
	late           *time.Timer

	// Held from the run of callbacks in C until their events have arrived.
	processing sync.Mutex
	box        *C.struct_rg_box
	found      []*held

	mutex     sync.Mutex // pending, and these
	returning int        // goroutines that are expected back before anything is started
	backoff   int        // how rarely they came in time; ...
	spared    int        // ... for so many turns nothing waits for them
	locks     map[uintptr]*held
	observers map[uintptr]*observer
}

// A ClientOption changes a default of [Open].
type ClientOption func(*clientTerms)

type clientTerms struct {
	nodeTimeoutMs                                              C.int64_t
	bad                                                        error
	mode                                                       C.int
	recover                                                    C.int
	prefix, quorum, user, passwordFile, tlsCA, tlsCert, tlsKey string
}

// NodeTimeout is how long a try waits for a node, at least 1 ms. By default it is a twentieth of the
// TTL, at most 50 ms.
func NodeTimeout(timeout time.Duration) ClientOption {
	return func(terms *clientTerms) { terms.nodeTimeoutMs = milliseconds("NodeTimeout", timeout, &terms.bad) }
}

// KeyPrefix is put before the name of each resource, to make its key.
func KeyPrefix(prefix string) ClientOption {
	return func(terms *clientTerms) { terms.prefix = prefix }
}

// Classic makes locks as other Redlock clients do, also on nodes that carry the record of a quorum.
func Classic() ClientOption {
	return func(terms *clientTerms) { terms.mode = C.REDLOCK_MODE_CLASSIC }
}

// Guarded accepts only nodes that carry the record of a quorum, so each lock has a fence. An id,
// unless it is empty, accepts only this quorum.
func Guarded(id string) ClientOption {
	return func(terms *clientTerms) { terms.mode, terms.quorum = C.REDLOCK_MODE_GUARDED, id }
}

// Recover brings nodes that lost their data back, in the background.
func Recover() ClientOption {
	return func(terms *clientTerms) { terms.recover = 1 }
}

// Login is for nodes whose URL has no password. The first line of the file is the password. It is
// read for each connection.
func Login(user, passwordFile string) ClientOption {
	return func(terms *clientTerms) { terms.user, terms.passwordFile = user, passwordFile }
}

// TLS names files in PEM for nodes with rediss: the certificates to trust, and the client's own
// with its key. An empty name is the default: the system's store, and none.
func TLS(caFile, certFile, keyFile string) ClientOption {
	return func(terms *clientTerms) {
		terms.tlsCA, terms.tlsCert, terms.tlsKey = caFile, certFile, keyFile
	}
}

// Open makes a client on 1 to 15 nodes: "redis://[user:password@]host[:port][/db]", "rediss://..."
// (TLS) or "unix:///path", separated by commas. "": those of REDLOCK_NODES, else of the file that
// REDLOCK_CONFIG names, else of /etc/redlock.conf, which may set options too. Open returns at once,
// and connects in the background.
func Open(nodes string, options ...ClientOption) (*Client, error) {
	terms := clientTerms{mode: C.REDLOCK_MODE_AUTO}
	for _, option := range options {
		option(&terms)
	}
	c, err := open(nodes, &terms)
	if err != nil {
		return nil, err
	}
	inner := &core{c: c, over: make(chan struct{}),
		box:       (*C.struct_rg_box)(C.calloc(1, C.sizeof_struct_rg_box)),
		locks:     make(map[uintptr]*held),
		observers: make(map[uintptr]*observer)}
	inner.late = time.AfterFunc(time.Hour, inner.notBack)
	inner.late.Stop()
	if err := inner.listen(); err != nil {
		C.redlock_client_free(c)
		return nil, err
	}
	client := &Client{core: inner}
	client.forgotten = runtime.AddCleanup(client, func(inner *core) { go inner.close() }, inner)
	return client, nil
}

func open(nodes string, terms *clientTerms) (*C.struct_redlock_client, error) {
	texts := []string{nodes, terms.quorum, terms.user, terms.passwordFile, terms.tlsCA, terms.tlsCert, terms.tlsKey}
	if strings.ContainsRune(strings.Join(texts, ""), 0) {
		return nil, badArgument("the list of nodes, or an option, has a NUL byte")
	}
	if terms.bad != nil {
		return nil, terms.bad
	}
	var copies []unsafe.Pointer
	text := func(value string) *C.char {
		if value == "" {
			return nil
		}
		copied := C.CString(value)
		copies = append(copies, unsafe.Pointer(copied))
		return copied
	}
	defer func() {
		for _, each := range copies {
			C.free(each)
		}
	}()
	var client *C.struct_redlock_client
	var why *C.char
	result := C.rg_open(text(nodes), &C.struct_rg_client_terms{
		node_timeout_ms: terms.nodeTimeoutMs,
		mode:            terms.mode, recover: terms.recover,
		key_prefix: text(terms.prefix), key_prefix_bytes: C.size_t(len(terms.prefix)),
		quorum: text(terms.quorum), user: text(terms.user), password_file: text(terms.passwordFile),
		tls_ca_file: text(terms.tlsCA), tls_cert_file: text(terms.tlsCert), tls_key_file: text(terms.tlsKey),
	}, &client, &why)
	if result != C.REDLOCK_OK {
		return nil, newError(result, "", why)
	}
	return client, nil
}

// Close releases all locks and ends all waits of the client. Contexts of its locks end with the
// cause [ErrClosed].
func (client *Client) Close() error {
	client.forgotten.Stop()
	client.core.close()
	return nil
}

func (core *core) close() {
	if core.closed.Swap(true) {
		<-core.over
		return
	}
	for _, lock := range core.all() {
		go core.cancel(lock)
	}
	core.use.Lock()
	defer core.use.Unlock()
	for _, lock := range core.all() {
		lock.drop(ErrClosed)
	}
	for _, seen := range core.allObservers() {
		seen.stop()
	}
	core.stopListening()
	core.late.Stop()
	C.redlock_client_free(core.c)
	C.free(unsafe.Pointer(core.box.events))
	C.free(unsafe.Pointer(core.box))
	close(core.over)
}

// begin is before a use of the client in C, and end after it.
func (core *core) begin() error {
	if !core.use.TryRLock() { // Close waits for those that are in use
		return ErrClosed
	}
	if core.closed.Load() {
		core.use.RUnlock()
		return ErrClosed
	}
	return nil
}

func (core *core) end() { core.use.RUnlock() }

func (core *core) all() []*held {
	core.mutex.Lock()
	defer core.mutex.Unlock()
	return slices.Collect(maps.Values(core.locks))
}
