package redis_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/errandhq/errand/backend/redis"
	"github.com/errandhq/errand/backend/redis/redistest"
	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// wantSetup checks that err is a SetupError with all of those words in it.
func wantSetup(t *testing.T, what string, err error, words ...string) {
	t.Helper()
	_, isSetup := errors.AsType[*queue.SetupError](err)
	for _, word := range words {
		if !isSetup || !strings.Contains(err.Error(), word) {
			t.Errorf("%s: got error %v, want a SetupError with %q", what, err, words)
			return
		}
	}
}

// TestReplicaIsRefused: a program that is given a replica learns it at once. A tool that only looks
// may look there.
func TestReplicaIsRefused(t *testing.T) {
	extent.Long(t)
	master, first := startWith(t, nil)
	name := redis.NamespaceOf(open(t, first, redis.Options{}))
	_, replica := startWith(t, nil)
	host, port, err := net.SplitHostPort(master.Addrs[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := replica.Do(t.Context(), replica.B().Replicaof().Host(host).Port(6379).Build()).Error(); err != nil { // which is no master
		t.Fatal(err)
	}
	_, err = redis.New(t.Context(), replica, redis.Options{Namespace: name})
	wantSetup(t, "New on a replica", err, "is a replica", host+":6379")
	if err := replica.Do(t.Context(), replica.B().Arbitrary("REPLICAOF").Args(host, port).Build()).Error(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); ; {
		_, err = redis.New(t.Context(), replica, redis.Options{Namespace: name, ReadOnly: true})
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("New with ReadOnly on a replica: %v", err)
		}
	}
}

// TestDenied: a user who lacks a right learns from the error which one, in each operation.
func TestDenied(t *testing.T) {
	s, admin := startWith(t, nil)
	name := redis.NamespaceOf(open(t, admin, redis.Options{}))
	set := func(rights ...string) {
		t.Helper()
		words := append([]string{"SETUSER", "somebody", "reset", "on", ">secret"}, rights...)
		if err := admin.Do(t.Context(), admin.B().Arbitrary("ACL").Args(words...).Build()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	connect := func() (*redis.Backend, error) {
		client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: s.Addrs, DisableCache: true, ForceSingleClient: true, Username: "somebody", Password: "secret"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(client.Close)
		return redis.New(t.Context(), client, redis.Options{Namespace: name})
	}
	for _, c := range []struct {
		rights string
		says   string
	}{
		{"~* &* +@all -info", "'info'"},
		{"~* &* +@all -hget", "'hget'"},
		{"~* &* +@all -fcall", "'fcall'"},
		{"~other:* &* +@all", "key"},
	} {
		set(strings.Fields(c.rights)...)
		_, err := connect()
		wantSetup(t, "New with "+c.rights, err, "this user lacks a right", c.says)
		if !errors.Is(err, fs.ErrPermission) {
			t.Errorf("New with %s: %v is no fs.ErrPermission", c.rights, err)
		}
	}
	set("~*", "&*", "+@all", "-zadd", "-config")
	b, err := connect()
	if err != nil {
		t.Fatal(err)
	}
	err = b.Enqueue(t.Context(), nil, newJobs(1)...)
	wantSetup(t, "Enqueue without zadd", err, "redis: enqueue: this user lacks the right to ZADD;")
	if errors.Is(err, queue.ErrUnknown) {
		t.Errorf("Enqueue without zadd: %v is an ErrUnknown", err)
	}
}

// records is a log's errors.
type records struct {
	mu    sync.Mutex
	lines []string
}

func (r *records) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }
func (r *records) WithAttrs([]slog.Attr) slog.Handler               { return r }
func (r *records) WithGroup(string) slog.Handler                    { return r }

func (r *records) Handle(_ context.Context, record slog.Record) error {
	line := record.Message
	record.Attrs(func(a slog.Attr) bool { line += " " + a.String(); return true })
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, line)
	return nil
}

// has returns how many lines have the text.
func (r *records) has(text string) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, line := range r.lines {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// TestNamespaceDisappears: keys are flushed beside a running worker. Its log says so, once, and it
// goes on with new jobs. A program with other options is refused as before.
func TestNamespaceDisappears(t *testing.T) {
	t.Parallel()
	_, client := startWith(t, nil)
	name := redistest.Namespace()
	b, err := redis.New(t.Context(), client, redis.Options{Namespace: name, Partitions: 4})
	if err != nil {
		t.Fatal(err)
	}
	log := &records{}
	ran := make(chan int64)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	w := engine.Worker{Backend: b, Queues: []string{"q"}, Lease: time.Second, Logger: slog.New(log),
		Handler: queue.HandlerFunc(func(_ context.Context, j *queue.Job) error { ran <- j.ID; return nil })}
	go func() { ended <- w.Run(ctx) }()
	run := func() {
		t.Helper()
		if err := b.Enqueue(t.Context(), nil, newJobs(1)...); err != nil {
			t.Fatal(err)
		}
		select {
		case <-ran:
		case <-time.After(time.Minute):
			t.Fatal("the job has not run")
		}
	}
	run()
	if err := client.Do(t.Context(), client.B().Flushall().Build()).Error(); err != nil {
		t.Fatal(err)
	}
	const says = "has disappeared, and its jobs with it"
	for end := time.Now().Add(time.Minute); log.has(says) == 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the worker's log does not say that the keys are gone: %q", log.lines)
		}
	}
	run()
	_, err = redis.New(t.Context(), client, redis.Options{Namespace: name, Partitions: 8})
	wantSetup(t, "New with other options", err, "has partitions 4")
	if _, err := b.Reclaim(t.Context(), 1); err != nil {
		t.Errorf("Reclaim afterwards: %v", err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if n := log.has(says); n != 1 {
		t.Errorf("the log says it %d times, want once", n)
	}
}

// TestTooMuchAtOnce: a call with more bytes than a server takes in one command is refused, and
// writes nothing. A claim may name any number of kinds.
func TestTooMuchAtOnce(t *testing.T) {
	extent.Long(t)
	b := open(t, redistest.Open(t), redis.Options{})
	jobs := newJobs(65)
	big := []byte(`"` + strings.Repeat("x", 1<<20-2) + `"`)
	for _, j := range jobs {
		j.Payload = big
	}
	err := b.Enqueue(t.Context(), nil, jobs...)
	if e, ok := errors.AsType[*queue.InvalidError](err); !ok || e.Problem != "65 MB: at most 64 MB a call" {
		t.Errorf("Enqueue of 65 MB: got error %v, want an InvalidError", err)
	}
	err = b.Enqueue(t.Context(), nil, newJobs(10_001)...)
	if e, ok := errors.AsType[*queue.InvalidError](err); !ok || !strings.HasPrefix(e.Problem, "10001: at most 10000 a call") {
		t.Errorf("Enqueue of 10,001 jobs: got error %v, want an InvalidError", err)
	}
	if n := count(t, b, queue.StatusPending); n != 0 {
		t.Errorf("%d jobs were written", n)
	}
	if err := b.Enqueue(t.Context(), nil, newJobs(1)...); err != nil {
		t.Fatal(err)
	}
	r := request(1)
	for i := range 20_000 {
		r.Kinds = append(r.Kinds, fmt.Sprint("kind-", i))
	}
	r.Kinds = append(r.Kinds, "k")
	if found, err := b.Claim(t.Context(), r); err != nil || len(found) != 1 {
		t.Errorf("Claim of %d kinds: got %d jobs, error %v; want 1", len(r.Kinds), len(found), err)
	}
}

// TestReadOnly: a backend that only reads says so in each call that would write, and writes
// nothing.
func TestReadOnly(t *testing.T) {
	client := redistest.Open(t)
	b := open(t, client, redis.Options{})
	if err := b.Enqueue(t.Context(), nil, newJobs(2)...); err != nil {
		t.Fatal(err)
	}
	held := wantClaim(t, b, 2)[:1]
	reader, err := redis.New(t.Context(), client, redis.Options{Namespace: redis.NamespaceOf(b), ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	calls := map[string]func() error{
		"Enqueue":      func() error { return reader.Enqueue(ctx, nil, newJobs(1)...) },
		"Claim":        func() error { _, err := reader.Claim(ctx, request(1)); return err },
		"Settle":       func() error { _, err := reader.Settle(ctx, nil, outcomesFor(held)...); return err },
		"Extend":       func() error { _, _, err := reader.Extend(ctx, time.Minute, held...); return err },
		"Reassign":     func() error { _, err := reader.Reassign(ctx, []string{"other"}, held...); return err },
		"Cancel":       func() error { _, err := reader.Cancel(ctx, nil, queue.Selection{Queue: "q"}); return err },
		"Prune":        func() error { _, _, err := reader.Prune(ctx); return err },
		"SetRules":     func() error { return reader.SetRules(ctx, nil, queue.Rule{Queue: "q", Running: 1}) },
		"Pause":        func() error { _, err := reader.Pause(ctx, nil, queue.Target{Kind: "k"}, true); return err },
		"SetSchedules": func() error { return reader.SetSchedules(ctx, nil, hourly(1)...) },
		"ReportWorkers": func() error {
			return reader.ReportWorkers(ctx, driver.WorkerReport{WorkerInfo: driver.WorkerInfo{Name: "w", Queues: []string{"q"}, Concurrency: 1}})
		},
	}
	for what, call := range calls {
		if err := call(); err == nil || !strings.HasSuffix(err.Error(), ": this backend only reads: Options.ReadOnly is set") {
			t.Errorf("%s: got error %v", what, err)
		}
	}
	if n := count(t, b, queue.StatusRunning); n != 2 {
		t.Errorf("%d jobs run, want 2", n)
	}
}

// TestBusyServer: somebody's script keeps the server busy. A call waits until it has ended.
func TestBusyServer(t *testing.T) {
	t.Parallel()
	s, client := startWith(t, map[string]string{"busy-reply-threshold": "20"})
	b := open(t, client, redis.Options{})
	other, err := s.Client()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(other.Close)
	ended := make(chan error, 1)
	go func() {
		ended <- other.Do(t.Context(), other.B().Eval().Script("while true do end").Numkeys(0).Build()).Error()
	}()
	for end := time.Now().Add(time.Minute); ; {
		err := client.Do(t.Context(), client.B().Get().Key("x").Build()).Error()
		if err != nil && strings.HasPrefix(err.Error(), "BUSY ") {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the server is not busy: %v", err)
		}
	}
	kill := time.AfterFunc(100*time.Millisecond, func() { client.Do(t.Context(), client.B().ScriptKill().Build()) })
	defer kill.Stop()
	if err := errors.Join(b.Check(t.Context()), b.Enqueue(t.Context(), nil, newJobs(1)...)); err != nil {
		t.Errorf("Check and Enqueue beside a script that is killed: %v", err)
	}
	if err := <-ended; err == nil {
		t.Error("the script has ended by itself")
	}
}
