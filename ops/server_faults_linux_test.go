package ops_test

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/ops"
	"github.com/errandhq/errand/queue"
)

// wantOnly fails unless Doctor finds that fault and no other, and returns it.
func wantOnly(t *testing.T, q queue.Queue, id string, level ops.Level) ops.Check {
	t.Helper()
	found := examine(t, q, ops.Options{})
	if c, ok := found[id]; !ok || len(found) > 1 || c.Level != level {
		t.Errorf("found %v (%s), want only %s, %s", slices.Collect(maps.Keys(found)), c.Level, id, level)
	}
	return found[id]
}

// TestStandby: both say that the URL leads to a standby, on which nobody claims. Explain still
// tells what has become of jobs.
func TestStandby(t *testing.T) {
	extent.Long(t)
	t.Parallel()
	primary := newServer(t, 0)
	_, q := primary.migrated(t)
	done := enqueue(t, q, queue.Job{})
	settle(t, q, queue.Outcome{Job: claim(t, q, "", time.Minute)[0], Action: queue.Done})
	dead := enqueue(t, q, queue.Job{})
	settle(t, q, queue.Outcome{Job: claim(t, q, "", time.Minute)[0], Action: queue.Dead, Err: errors.New("no")})
	id := enqueue(t, q, queue.Job{})
	report(t, q, idle)
	if found := examine(t, q, ops.Options{}); len(found) > 0 {
		t.Errorf("the primary: found %v", found)
	}
	reading := backend(t, primary.standby(t).open(t), postgres.Options{})
	eventually(t, "the standby has the jobs", func() bool {
		_, ok, err := reading.Job(t.Context(), id)
		return err == nil && ok
	})
	if c := wantOnly(t, reading, "writable", ops.Fail); !strings.Contains(c.Advice, "target_session_attrs=read-write") {
		t.Errorf("got %+v", c)
	}
	for _, question := range []ops.Question{{ID: id}, {Queue: queue.DefaultQueue}, {Kind: "test"}} {
		a := explain(t, reading, question)
		wantReason(t, a, "read-only")
		if r := a.Reasons[0]; !strings.Contains(r.Verdict, "The server is a standby") {
			t.Errorf("%+v: got %+v", question, r)
		}
	}
	wantReason(t, explain(t, reading, ops.Question{ID: done}), "completed")
	wantReason(t, explain(t, reading, ops.Question{ID: dead}), "dead-discarded")
	wantReason(t, explain(t, reading, ops.Question{ID: id + 1000}), "never-existed")
}

// TestWrongClock: Doctor finds that the server's clock is wrong, and Explain says so of a job that
// waits for its time.
func TestWrongClock(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		seconds int
		level   ops.Level
		says    string
	}{
		{"ahead", 20, ops.Warn, "ahead of th"},
		{"behind", -90, ops.Fail, "behind th"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, q := newServer(t, 0, wrongClock(t, c.seconds)).migrated(t)
			report(t, q, idle)
			if f := wantOnly(t, q, "clock", c.level); !strings.Contains(f.Value, c.says) || !strings.Contains(f.Advice, "NTP") {
				t.Errorf("got %+v", f)
			}
			a := explain(t, q, ops.Question{ID: enqueue(t, q, queue.Job{ScheduledAt: time.Now().Add(time.Hour)})})
			wantReason(t, a, "delayed")
			if text := strings.Join(a.Reasons[0].Evidence, "\n"); !strings.Contains(text, "the database's clock is ") || !strings.Contains(text, c.says) {
				t.Errorf("got %q, want that the clock is %s", text, c.says)
			}
			wantReason(t, explain(t, q, ops.Question{ID: enqueue(t, q, queue.Job{Queue: "q"})}), "just-due")
		})
	}
}

// TestFullDisk: the server's disk has become full while a worker runs. Both say so, and Explain
// names what the worker's claims fail with. That temporary files have a disk with room does not
// hide it.
func TestFullDisk(t *testing.T) {
	extent.Long(t)
	t.Parallel()
	s := newServer(t, 160)
	db, q := s.migrated(t)
	roomy := filepath.Join(s.dir, "roomy")
	if err := os.Mkdir(roomy, 0o700); err != nil {
		t.Fatal(err)
	}
	s.own(t, roomy)
	exec(t, db, `CREATE TABLESPACE roomy LOCATION '`+roomy+`'`)
	exec(t, db, `ALTER SYSTEM SET temp_tablespaces = roomy`)
	exec(t, db, `SELECT pg_reload_conf()`)
	handled := make(chan struct{}, 10)
	run(t, engine.Worker{Backend: q, Handler: queue.HandlerFunc(func(context.Context, *queue.Job) error {
		handled <- struct{}{}
		return nil
	}), Logger: slog.New(slog.DiscardHandler)})
	enqueue(t, q, queue.Job{})
	<-handled
	exec(t, db, `CHECKPOINT`)
	s.fill(t)
	wantOnly(t, q, "disk", ops.Fail)
	exec(t, db, `UPDATE errand.workers SET seen_at = seen_at - interval '1 minute'`) // as if its reports had failed
	a := explain(t, q, ops.Question{ID: enqueue(t, q, queue.Job{Queue: "q"})})
	if reasonIDs(a) != "disk-full no-worker" {
		t.Errorf("got %s", reasonIDs(a))
	}
}

// TestFullDiskSQLite: the disk of the file is full. Both say so.
func TestFullDiskSQLite(t *testing.T) {
	t.Parallel()
	s := &ownServer{dir: t.TempDir()}
	s.mount(t, 16)
	db, q := openFile(t, filepath.Join(s.data(), "jobs.db"))
	id := enqueue(t, q, queue.Job{})
	exec(t, db, `PRAGMA wal_checkpoint(TRUNCATE)`)
	wantOnly(t, q, "disk", ops.Warn) // a disk of 16 MB
	s.fill(t)
	wantOnly(t, q, "disk", ops.Fail)
	a := explain(t, q, ops.Question{ID: id})
	if r := a.Reasons[0]; reasonIDs(a) != "disk-full no-worker" || !strings.Contains(strings.Join(r.Evidence, "\n"), "has room for 0 kB") {
		t.Errorf("got %s: %+v", reasonIDs(a), r)
	}
}

// TestNotifyQueue: a session that listens and has a transaction open keeps notifications in the
// server's queue.
func TestNotifyQueue(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 900 MB")
	}
	t.Parallel()
	db, q := newServer(t, 0).migrated(t)
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	exec(t, conn, `LISTEN x`)
	exec(t, conn, `BEGIN`)
	for range 12 { // an eighth of the queue, which has 8 GB
		exec(t, db, `SELECT pg_notify('x', repeat('x', 7900) || n) FROM generate_series(1, 10000) AS n`)
	}
	if c := wantOnly(t, q, "notify-queue", ops.Warn); !strings.Contains(c.Value, "11 % of the server's queue") {
		t.Errorf("got %+v", c)
	}
}
