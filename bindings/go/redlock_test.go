// SPDX-License-Identifier: BSD-2-Clause

package redlock_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"redlock.example.org/go"
)

// ---- servers ----

type server struct {
	path    string
	process *exec.Cmd
}

func command(t testing.TB, name string, words ...string) *exec.Cmd {
	t.Helper()
	made := exec.Command(name, words...)
	made.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return made
}

func (each *server) ask(t testing.TB, words ...string) string {
	t.Helper()
	connection, err := net.Dial("unix", each.path)
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	fmt.Fprintf(connection, "%s\r\n", strings.Join(words, " "))
	line, err := bufio.NewReader(connection).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line)
}

func (each *server) kill() {
	_ = each.process.Process.Kill()
	_ = each.process.Wait()
}

type quorum []*server

func (all quorum) signal(sent syscall.Signal) {
	for _, each := range all {
		_ = each.process.Process.Signal(sent)
	}
}

func (all quorum) nodes() string {
	var urls []string
	for _, each := range all {
		urls = append(urls, "unix://"+each.path)
	}
	return strings.Join(urls, ",")
}

func (all quorum) holding(t testing.TB, key string) (count int) {
	t.Helper()
	for _, each := range all {
		if each.ask(t, "EXISTS", key) == ":1" {
			count++
		}
	}
	return count
}

func start(t testing.TB, count int) quorum {
	t.Helper()
	directory, err := os.MkdirTemp("", "redlock-go-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(directory) })
	runtime.LockOSThread() // servers end with the thread that started them
	var all quorum
	for i := range count {
		path := filepath.Join(directory, strconv.Itoa(i))
		each := &server{path, command(t, "redis-server", "--port", "0", "--unixsocket", path, "--save", "", "--dir", directory)}
		if err := each.process.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(each.kill)
		until(t, "a server", func() bool {
			connection, err := net.Dial("unix", path)
			if err == nil {
				connection.Close()
			}
			return err == nil
		})
		all = append(all, each)
	}
	return all
}

// guarded starts a quorum whose locks have fences.
func guarded(t testing.TB) string {
	t.Helper()
	runtime.LockOSThread()
	up := command(t, "redlock", "up", "-q", "--mode", "guarded", "-n", "3")
	output, err := up.StdoutPipe()
	if err == nil {
		err = up.Start()
	}
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() {
		_ = up.Process.Signal(syscall.SIGTERM)
		_ = up.Wait()
	})
	line, err := bufio.NewReader(output).ReadString('\n')
	found := regexp.MustCompile(`^export REDLOCK_NODES='(.*)'\n$`).FindStringSubmatch(line)
	if found == nil {
		t.Fatal(line, err)
	}
	return found[1]
}

func until(t testing.TB, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s did not come about", what)
		}
	}
}

func open(t testing.TB, nodes string) *redlock.Client {
	t.Helper()
	client, err := redlock.Open(nodes, redlock.NodeTimeout(150*time.Millisecond)) // the machine may be busy
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

func take(t testing.TB, client *redlock.Client, resource string, options ...redlock.Option) (*redlock.Lock, context.Context) {
	t.Helper()
	lock, ctx, err := client.Lock(context.Background(), resource, options...)
	if err != nil {
		t.Fatal(err)
	}
	return lock, ctx
}

func expect(t testing.TB, err error, wanted ...error) {
	t.Helper()
	for _, each := range wanted {
		if !errors.Is(err, each) {
			t.Fatalf("%v is not: %v", err, each)
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// ---- one lock ----

func TestLock(t *testing.T) {
	three := start(t, 3)
	client := open(t, three.nodes())
	lock, ctx := take(t, client, "tide", redlock.TTL(5*time.Second), redlock.Owner("me"))
	if token := lock.Token(); len(token) != 43 || !strings.HasSuffix(token, ":me") {
		t.Fatalf("token %q", token)
	}
	if left := lock.Validity(); left < time.Second || left > 5*time.Second {
		t.Fatal(left)
	}
	if lock.Fence() != 0 || lock.Slot() != 0 || ctx.Err() != nil {
		t.Fatal(lock.Fence(), lock.Slot(), ctx.Err())
	}
	until(t, "each node has it", func() bool { return three.holding(t, "tide") == 3 })
	_, _, err := open(t, three.nodes()).TryLock(context.Background(), "tide")
	expect(t, err, redlock.ErrHeld)
	var why *redlock.Error
	if !errors.As(err, &why) || why.Code != redlock.ErrHeld || why.Resource != "tide" || why.Sentence == "" {
		t.Fatalf("%#v", why)
	}
	must(t, lock.Extend(ctx, time.Minute))
	if left := lock.Validity(); left < 50*time.Second {
		t.Fatal(left)
	}
	must(t, lock.Unlock(ctx))
	expect(t, context.Cause(ctx), redlock.ErrUnlocked)
	expect(t, lock.Unlock(ctx), redlock.ErrLost, redlock.ErrUnlocked)
	expect(t, lock.Extend(ctx, 0), redlock.ErrLost)
	if lock.Token() != "" || lock.Validity() != 0 {
		t.Fatal(lock.Token(), lock.Validity())
	}
	until(t, "no node has it", func() bool { return three.holding(t, "tide") == 0 })
}

func TestRenewal(t *testing.T) {
	three := start(t, 3)
	client := open(t, three.nodes())
	lock, ctx := take(t, client, "tide", redlock.TTL(600*time.Millisecond))
	time.Sleep(1500 * time.Millisecond)
	if ctx.Err() != nil || lock.Validity() == 0 {
		t.Fatal(context.Cause(ctx), lock.Validity())
	}
	must(t, lock.Unlock(ctx))
	_, ctx = take(t, client, "tide", redlock.TTL(300*time.Millisecond), redlock.NoRenewal())
	<-ctx.Done()
	expect(t, context.Cause(ctx), redlock.ErrLost)
}

// Two of five nodes may be lost. With the third the lock is, and that is known before it ends.
func TestLoss(t *testing.T) {
	five := start(t, 5)
	lock, ctx := take(t, open(t, five.nodes()), "tide", redlock.TTL(2*time.Second))
	five[0].kill()
	five[1].kill()
	time.Sleep(2500 * time.Millisecond)
	if ctx.Err() != nil {
		t.Fatal(context.Cause(ctx))
	}
	five[2].kill()
	var end time.Time
	for ctx.Err() == nil {
		if left := lock.Validity(); left > 0 {
			end = time.Now().Add(left)
		}
		time.Sleep(time.Millisecond)
	}
	if left := time.Until(end); left <= 0 || left > 300*time.Millisecond { // the margin is a tenth of the TTL
		t.Fatalf("reported %v before the end of validity", left)
	}
	err := context.Cause(ctx)
	expect(t, err, redlock.ErrLost)
	if !strings.Contains(err.Error(), five[2].path) {
		t.Fatalf("it does not name the nodes: %v", err)
	}
	expect(t, lock.Unlock(ctx), redlock.ErrLost)
	until(t, "released where that is possible", func() bool { return five[3:].holding(t, "tide") == 0 })
	_, _, err = open(t, five.nodes()).TryLock(context.Background(), "tide")
	expect(t, err, redlock.ErrNoQuorum)
	short, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	_, _, err = open(t, five.nodes()).Lock(short, "tide")
	expect(t, err, redlock.ErrNoQuorum, context.DeadlineExceeded)
	t.Log(err)
}

func TestUnlockWithAnEndedContext(t *testing.T) {
	three := start(t, 3)
	ended, end := context.WithCancelCause(context.Background())
	lock, ctx, err := open(t, three.nodes()).Lock(ended, "tide")
	must(t, err)
	reason := errors.New("reason")
	end(reason)
	expect(t, context.Cause(ctx), reason)
	if err := lock.Unlock(ctx); err != nil { // perhaps it was quicker
		expect(t, err, reason)
	}
	until(t, "it is released", func() bool { return three.holding(t, "tide") == 0 })
}

// lossOnABusyScheduler says how long before the end of validity the context of a lock ends, while
// each goroutine waits for a second or more.
func lossOnABusyScheduler(t *testing.T, client *redlock.Client) (left time.Duration) {
	lock, ctx := take(t, client, "tide", redlock.TTL(4*time.Second), redlock.NoRenewal())
	end := time.Now().Add(lock.Validity())
	var group sync.WaitGroup
	var stop atomic.Bool
	for range 20 * runtime.GOMAXPROCS(0) {
		group.Add(1)
		go func() {
			defer group.Done()
			for !stop.Load() {
			}
		}()
	}
	group.Add(1)
	context.AfterFunc(ctx, func() { // this goroutine has a thread of its own, which is slow to wake
		defer group.Done()
		left = time.Until(end)
		stop.Store(true)
	})
	group.Wait()
	expect(t, context.Cause(ctx), redlock.ErrLost)
	_ = lock.Unlock(ctx)
	return left
}

// The context does not wait until all goroutines have had their turn. On a busy machine that is not
// so each time.
func TestLossOnABusyScheduler(t *testing.T) {
	client := open(t, start(t, 3).nodes())
	var all []time.Duration
	for range 6 {
		left := lossOnABusyScheduler(t, client)
		if left > 0 {
			return
		}
		all = append(all, left)
	}
	t.Fatalf("it ended after validity: %v", all)
}

func TestBadArguments(t *testing.T) {
	_, err := redlock.Open("http://db1")
	expect(t, err, redlock.ErrBadArgument)
	nodes := start(t, 1).nodes()
	for _, option := range []redlock.ClientOption{
		redlock.NodeTimeout(0), redlock.NodeTimeout(time.Microsecond), redlock.NodeTimeout(-time.Second),
		redlock.Login("me\x00", "/dev/null"), redlock.Login("me", "/dev/null\x00"), redlock.Guarded("0123456789abcdef\x00"),
		redlock.TLS("\x00", "", ""), redlock.TLS("", "\x00", "\x00"),
	} {
		_, err := redlock.Open(nodes, option)
		expect(t, err, redlock.ErrBadArgument)
	}
	_, err = redlock.Open(nodes + "\x00,redis://db2")
	expect(t, err, redlock.ErrBadArgument)
	client := open(t, nodes)
	_, _, err = client.Lock(context.Background(), strings.Repeat("x", 1<<16+1))
	expect(t, err, redlock.ErrBadArgument)
	if len(err.Error()) > 400 {
		t.Fatal(len(err.Error()))
	}
	for _, options := range [][]redlock.Option{
		{redlock.TTL(-1)}, {redlock.TTL(0)}, {redlock.TTL(time.Nanosecond)}, {redlock.TTL(1<<63 - 1)}, {redlock.MaxHold(0)},
		{redlock.Slots(65)}, {redlock.Slots(0)}, {redlock.Slots(-1)}, {redlock.Slots(1 << 32)}, {redlock.Slots(1<<32 + 3)},
		{redlock.Shared(), redlock.Slots(2)},
		{redlock.Owner(strings.Repeat("x", 129))}, {redlock.Also("")}, {redlock.Also(make([]string, 200)...)},
	} {
		_, _, err := client.Lock(context.Background(), "tide", options...)
		expect(t, err, redlock.ErrBadArgument)
	}
	_, _, err = client.Lock(context.Background(), "")
	expect(t, err, redlock.ErrBadArgument)
	_, err = client.Observe(context.Background(), "")
	expect(t, err, redlock.ErrBadArgument)
}

// ---- kinds ----

func TestKinds(t *testing.T) {
	three := start(t, 3)
	client, background := open(t, three.nodes()), context.Background()
	reader, _ := take(t, client, "tide", redlock.Shared())
	other, _ := take(t, client, "tide", redlock.Shared())
	_, _, err := client.TryLock(background, "tide")
	expect(t, err, redlock.ErrHeld)
	must(t, reader.Unlock(background))
	must(t, other.Unlock(background))

	writer, ctx := take(t, client, "tide")
	must(t, writer.Downgrade(ctx))
	reader, _ = take(t, client, "tide", redlock.Shared())
	must(t, writer.Unlock(ctx))
	must(t, reader.Unlock(background))

	first, _ := take(t, client, "berth", redlock.Slots(2))
	second, _ := take(t, client, "berth", redlock.Slots(2))
	if first.Slot()+second.Slot() != 3 {
		t.Fatal(first.Slot(), second.Slot())
	}
	_, _, err = client.TryLock(background, "berth", redlock.Slots(2))
	expect(t, err, redlock.ErrHeld)
	_, _, err = client.TryLock(background, "berth", redlock.Slots(3))
	expect(t, err, redlock.ErrOtherSlots)

	both, ctx := take(t, client, "moon", redlock.Also("sun", "stars"))
	_, _, err = client.TryLock(background, "stars")
	expect(t, err, redlock.ErrHeld)
	must(t, both.Unlock(ctx))
	must(t, first.Unlock(background))

	limited, ctx := take(t, client, "tide", redlock.TTL(300*time.Millisecond), redlock.MaxHold(600*time.Millisecond))
	<-ctx.Done()
	expect(t, context.Cause(ctx), redlock.ErrLost)
	_ = limited.Unlock(ctx)
}

func TestGuarded(t *testing.T) {
	nodes := guarded(t)
	client := open(t, nodes)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	leaders, err := client.Observe(ctx, "helm")
	must(t, err)
	lock, leads, err := client.Elect(ctx, "helm", redlock.Owner("anna"))
	must(t, err)
	fence := lock.Fence()
	if fence <= 0 {
		t.Fatal(fence)
	}
	for leader := range leaders {
		if leader.State == redlock.LeaderKnown {
			if leader.ID != "anna" || leader.Term != fence || time.Until(leader.SureUntil) <= 0 {
				t.Fatal(leader, fence)
			}
			break
		}
	}
	must(t, lock.Unlock(leads))
	for leader := range leaders {
		if leader.State == redlock.LeaderNone {
			break
		}
	}
	next, _ := take(t, client, "helm")
	if next.Fence() <= fence {
		t.Fatal(next.Fence(), fence)
	}
	stop()
	for range leaders { // until it is closed
	}
	_, _, err = open(t, nodes).TryLock(context.Background(), "helm", redlock.TTL(time.Hour))
	expect(t, err, redlock.ErrTTLMaxExceeded)
}

// ---- waiting ----

func TestCancel(t *testing.T) {
	three := start(t, 3)
	holder, waiting := open(t, three.nodes()), open(t, three.nodes())
	lock, held := take(t, holder, "tide")
	var group sync.WaitGroup
	for range 20 { // the first blocks, the others do not
		group.Add(1)
		go func() {
			defer group.Done()
			ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
			defer cancel()
			_, _, err := waiting.Lock(ctx, "tide")
			expect(t, err, context.DeadlineExceeded, redlock.ErrHeld)
		}()
	}
	group.Wait()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, _, err := waiting.Lock(ctx, "free")
	expect(t, err, context.Canceled)
	if three.holding(t, "free") != 0 {
		t.Fatal("taken")
	}
	must(t, lock.Unlock(held))
	lock, held = take(t, waiting, "tide")
	must(t, lock.Unlock(held))
}

// within expects that a call with a context of 50 ms ends with it, though servers answer nothing.
func within(t *testing.T, what string, call func(context.Context) error, wanted ...error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	began := time.Now()
	err := call(ctx)
	if took := time.Since(began); took > time.Second {
		t.Errorf("%s took %v", what, took)
	}
	expect(t, err, append(wanted, context.DeadlineExceeded)...)
}

func TestDeadlines(t *testing.T) {
	three := start(t, 3)
	client, err := redlock.Open(three.nodes(), redlock.NodeTimeout(5*time.Second))
	must(t, err)
	t.Cleanup(func() { client.Close() })
	past, cancel := context.WithDeadline(context.Background(), time.Now().Add(-time.Hour))
	defer cancel()
	_, _, err = client.Lock(past, "z")
	expect(t, err, context.DeadlineExceeded, redlock.ErrCancelled)
	var locks []*redlock.Lock
	for i := range 6 {
		lock, _ := take(t, client, fmt.Sprint(i))
		locks = append(locks, lock)
	}
	soon, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	own, ownContext, err := client.Lock(soon, "own")
	must(t, err)
	within(t, "Lock of a held one", func(ctx context.Context) error {
		_, _, err := client.Lock(ctx, "0")
		return err
	}, redlock.ErrHeld)
	three.signal(syscall.SIGSTOP)
	defer three.signal(syscall.SIGCONT)
	// The first is alone, and the others are not.
	within(t, "Unlock", locks[0].Unlock)
	within(t, "Unlock", locks[1].Unlock)
	within(t, "Extend", func(ctx context.Context) error { return locks[2].Extend(ctx, time.Minute) })
	within(t, "Extend during another", func(ctx context.Context) error { return locks[2].Extend(ctx, time.Minute) })
	within(t, "Downgrade during Extend", locks[2].Downgrade)
	within(t, "Unlock during Extend", locks[2].Unlock)
	expect(t, locks[2].Unlock(context.Background()), redlock.ErrLost, redlock.ErrUnlocked)
	within(t, "Lock", func(ctx context.Context) error {
		_, _, err := client.Lock(ctx, "x")
		return err
	}, redlock.ErrNoQuorum)
	within(t, "TryLock", func(ctx context.Context) error {
		_, _, err := client.TryLock(ctx, "y")
		return err
	}, redlock.ErrNoQuorum)
	expect(t, own.Unlock(ownContext), context.DeadlineExceeded)
	if late := time.Since(deadline(soon)); late > time.Second {
		t.Errorf("Unlock with the lock's own context: %v", late)
	}
	three.signal(syscall.SIGCONT)
	for _, name := range []string{"0", "1", "2", "x", "y", "own"} {
		until(t, name+" is released", func() bool { return three.holding(t, name) == 0 })
	}
	must(t, locks[3].Unlock(context.Background()))
}

func deadline(ctx context.Context) time.Time {
	at, _ := ctx.Deadline()
	return at
}

// Each call may be the only one of its client, which blocks in C.
func TestDeadlinesAlone(t *testing.T) {
	three := start(t, 3)
	for what, call := range map[string]func(*redlock.Client, *redlock.Lock, context.Context) error{
		"Unlock": func(_ *redlock.Client, lock *redlock.Lock, ctx context.Context) error { return lock.Unlock(ctx) },
		"Lock": func(client *redlock.Client, _ *redlock.Lock, ctx context.Context) error {
			_, _, err := client.Lock(ctx, "x")
			return err
		},
	} {
		client, err := redlock.Open(three.nodes(), redlock.NodeTimeout(2*time.Second))
		must(t, err)
		lock, _ := take(t, client, "tide")
		three.signal(syscall.SIGSTOP)
		within(t, what, func(ctx context.Context) error { return call(client, lock, ctx) })
		three.signal(syscall.SIGCONT)
		must(t, client.Close())
	}
	until(t, "all is released", func() bool { return three.holding(t, "x")+three.holding(t, "tide") == 0 })
}

func threads(t *testing.T) int {
	all, err := os.ReadDir("/proc/self/task")
	must(t, err)
	return len(all)
}

// All wait for one lock, and each has it once.
func TestManyWaitersNeedNoThreads(t *testing.T) {
	const count = 400
	client := open(t, start(t, 3).nodes())
	lock, held := take(t, client, "tide")
	before, counter := threads(t), 0
	var group sync.WaitGroup
	for range count {
		group.Add(1)
		go func() {
			defer group.Done()
			lock, ctx, err := client.Lock(context.Background(), "tide")
			if err != nil {
				t.Error(err)
				return
			}
			counter++
			if err := lock.Unlock(ctx); err != nil {
				t.Error(err)
			}
		}()
	}
	time.Sleep(time.Second)
	if more := threads(t) - before; more > 10 {
		t.Fatalf("%d more threads", more)
	}
	must(t, lock.Unlock(held))
	group.Wait()
	if counter != count {
		t.Fatal(counter)
	}
}

func TestClose(t *testing.T) {
	three := start(t, 3)
	client, other := open(t, three.nodes()), open(t, three.nodes())
	_, held := take(t, other, "taken")
	lock, ctx := take(t, client, "tide")
	var group sync.WaitGroup
	for range 20 {
		group.Add(1)
		go func() {
			defer group.Done()
			_, _, err := client.Lock(context.Background(), "taken")
			expect(t, err, redlock.ErrClosed)
		}()
	}
	time.Sleep(100 * time.Millisecond)
	must(t, client.Close())
	must(t, client.Close())
	group.Wait()
	expect(t, context.Cause(ctx), redlock.ErrClosed)
	expect(t, lock.Unlock(ctx), redlock.ErrClosed)
	_, _, err := client.Lock(context.Background(), "tide")
	expect(t, err, redlock.ErrClosed)
	_, err = client.Observe(context.Background(), "tide")
	expect(t, err, redlock.ErrClosed)
	if lock.Token() != "" || three.holding(t, "tide") != 0 || held.Err() != nil {
		t.Fatal(lock.Token(), three.holding(t, "tide"), held.Err())
	}
}

// ---- the garbage collector ----

func collect(t *testing.T, what string, done func() bool) {
	t.Helper()
	until(t, what, func() bool {
		runtime.GC()
		return done()
	})
}

func TestForgottenLock(t *testing.T) {
	three := start(t, 3)
	client := open(t, three.nodes())
	_, kept := take(t, client, "kept")
	child, cancel := context.WithCancel(kept)
	defer cancel()
	kept = nil
	_, _ = take(t, client, "forgotten")
	collect(t, "the release of the lock", func() bool { return three.holding(t, "forgotten") == 0 })
	if three.holding(t, "kept") == 0 || child.Err() != nil {
		t.Fatal("released, and its context is in use")
	}
	runtime.KeepAlive(kept)
}

// An extension that nobody waits for ends with its lock.
func TestForgottenExtension(t *testing.T) {
	three := start(t, 3)
	for what, call := range map[string]func(*redlock.Lock, context.Context) error{
		"Extend":    func(lock *redlock.Lock, ctx context.Context) error { return lock.Extend(ctx, time.Minute) },
		"Downgrade": (*redlock.Lock).Downgrade,
	} {
		client, err := redlock.Open(three.nodes(), redlock.NodeTimeout(time.Second))
		must(t, err)
		func() {
			lock, _ := take(t, client, "tide")
			three.signal(syscall.SIGSTOP)
			within(t, what, func(ctx context.Context) error { return call(lock, ctx) })
		}()
		for range 5 {
			runtime.GC()
			time.Sleep(10 * time.Millisecond)
		}
		three.signal(syscall.SIGCONT)
		closed := make(chan struct{})
		go func() {
			_ = client.Close()
			close(closed)
		}()
		select {
		case <-closed:
		case <-time.After(10 * time.Second):
			t.Fatalf("Close does not return after %s", what)
		}
		until(t, "it is released", func() bool { return three.holding(t, "tide") == 0 })
	}
}

func descriptors(t *testing.T) int {
	all, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	return len(all)
}

func TestForgottenClient(t *testing.T) {
	three := start(t, 3)
	before, goroutines := descriptors(t), runtime.NumGoroutine()
	lock := func() *redlock.Lock {
		client, err := redlock.Open(three.nodes())
		must(t, err)
		lock, _ := take(t, client, "tide")
		return lock
	}()
	for range 3 {
		runtime.GC()
	}
	if three.holding(t, "tide") == 0 || lock.Validity() == 0 {
		t.Fatal("a lock keeps its client")
	}
	runtime.KeepAlive(lock)
	lock = nil
	collect(t, "the end of the client", func() bool {
		return descriptors(t) <= before && runtime.NumGoroutine() <= goroutines && three.holding(t, "tide") == 0
	})
}

// ---- all at once ----

func rss(t *testing.T) int {
	text, err := os.ReadFile("/proc/self/statm")
	must(t, err)
	pages, err := strconv.Atoi(strings.Fields(string(text))[1])
	must(t, err)
	return pages * os.Getpagesize()
}

func soakSeconds() time.Duration {
	if seconds, err := strconv.Atoi(os.Getenv("REDLOCK_SOAK_S")); err == nil {
		return time.Duration(seconds) * time.Second
	}
	return 3 * time.Second
}

// once does something with a lock, and often forgets it.
func once(t *testing.T, client *redlock.Client) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(rand.IntN(20))*time.Millisecond)
	if rand.IntN(2) == 0 {
		ctx = context.Background()
	}
	defer cancel()
	resource := fmt.Sprint(rand.IntN(8))
	lock, held, err := client.Lock(ctx, resource, redlock.TTL(time.Duration(50+rand.IntN(2000))*time.Millisecond))
	if err != nil {
		if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, redlock.ErrClosed) && !errors.Is(err, redlock.ErrExpired) &&
			!errors.Is(err, redlock.ErrNoQuorum) {
			t.Error(err)
		}
		return
	}
	if rand.IntN(4) == 0 {
		_ = lock.Extend(held, time.Second)
	}
	switch rand.IntN(12) {
	case 0: // forgotten
	case 1:
		go lock.Unlock(context.Background())
		_ = lock.Unlock(held)
	case 2:
		cancel()
		_ = lock.Unlock(ctx)
	default:
		_ = lock.Unlock(held)
	}
}

func soak(t *testing.T, nodes string, end time.Time) {
	stop := make(chan struct{})
	defer close(stop)
	go func() { // others wait for what was forgotten
		for {
			select {
			case <-stop:
				return
			case <-time.After(50 * time.Millisecond):
				runtime.GC()
			}
		}
	}()
	for time.Now().Before(end) {
		client, err := redlock.Open(nodes)
		must(t, err)
		var group sync.WaitGroup
		for range 16 {
			group.Add(1)
			go func() {
				defer group.Done()
				for range 20 + rand.IntN(100) {
					once(t, client)
				}
			}()
		}
		if rand.IntN(4) == 0 {
			time.Sleep(time.Duration(rand.IntN(50)) * time.Millisecond)
			must(t, client.Close())
		}
		group.Wait()
		if rand.IntN(3) > 0 {
			must(t, client.Close())
		}
	}
}

func TestSoak(t *testing.T) {
	three := start(t, 3)
	soak(t, three.nodes(), time.Now().Add(time.Second))
	goroutines := runtime.NumGoroutine()
	files, memory := descriptors(t), rss(t)
	soak(t, three.nodes(), time.Now().Add(soakSeconds()))
	collect(t, "the end of all clients", func() bool { return runtime.NumGoroutine() <= goroutines && descriptors(t) <= files })
	if more := rss(t) - memory; !racing && more > 32<<20 {
		t.Fatalf("%d bytes more", more)
	}
}
