package explain_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/ops"
	"github.com/errandhq/errand/ops/doctor"
	"github.com/errandhq/errand/ops/explain"
	"github.com/errandhq/errand/ops/internal/opstest"
	"github.com/errandhq/errand/queue"
)

// TestStandby: both say that the URL leads to a standby, on which nobody claims. Explain still
// tells what has become of jobs.
func TestStandby(t *testing.T) {
	extent.Long(t)
	t.Parallel()
	primary := opstest.NewServer(t, 0)
	_, q := primary.Migrated(t)
	done := opstest.Enqueue(t, q, queue.Job{})
	opstest.Settle(t, q, queue.Outcome{Job: opstest.Claim(t, q, "", time.Minute)[0], Action: queue.Done})
	dead := opstest.Enqueue(t, q, queue.Job{})
	opstest.Settle(t, q, queue.Outcome{Job: opstest.Claim(t, q, "", time.Minute)[0], Action: queue.Dead, Err: errors.New("no")})
	id := opstest.Enqueue(t, q, queue.Job{})
	opstest.Report(t, q, opstest.Idle)
	if found := opstest.Examine(t, q, doctor.Options{}); len(found) > 0 {
		t.Errorf("the primary: found %v", found)
	}
	reading := opstest.Backend(t, primary.Standby(t).Open(t), postgres.Options{})
	opstest.Eventually(t, "the standby has the jobs", func() bool {
		_, ok, err := reading.Job(t.Context(), id)
		return err == nil && ok
	})
	if c := opstest.WantOnly(t, reading, "writable", ops.Fail); !strings.Contains(c.Advice, "target_session_attrs=read-write") {
		t.Errorf("got %+v", c)
	}
	if _, err := reading.Workers(t.Context()); err == nil || !strings.Contains(err.Error(), "the server is a standby") {
		t.Errorf("live workers: %v", err)
	}
	for _, question := range []explain.Question{{ID: id}, {Queue: queue.DefaultQueue}, {Kind: "test"}} {
		a := opstest.Explain(t, reading, question)
		opstest.WantReason(t, a, "read-only")
		if r := a.Reasons[0]; !strings.Contains(r.Verdict, "The server is a standby") {
			t.Errorf("%+v: got %+v", question, r)
		}
	}
	opstest.WantReason(t, opstest.Explain(t, reading, explain.Question{ID: done}), "completed")
	opstest.WantReason(t, opstest.Explain(t, reading, explain.Question{ID: dead}), "dead-discarded")
	opstest.WantReason(t, opstest.Explain(t, reading, explain.Question{ID: id + 1000}), "never-existed")
}

// TestWrongClock: doctor finds that the server's clock is wrong, and explain says so of a job that
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
			_, q := opstest.NewServer(t, 0, opstest.WrongClock(t, c.seconds)).Migrated(t)
			opstest.Report(t, q, opstest.Idle)
			if f := opstest.WantOnly(t, q, "clock", c.level); !strings.Contains(f.Value, c.says) || !strings.Contains(f.Advice, "NTP") {
				t.Errorf("got %+v", f)
			}
			a := opstest.Explain(t, q, explain.Question{ID: opstest.Enqueue(t, q, queue.Job{ScheduledAt: time.Now().Add(time.Hour)})})
			opstest.WantReason(t, a, "delayed")
			if text := strings.Join(a.Reasons[0].Evidence, "\n"); !strings.Contains(text, "the database's clock is ") || !strings.Contains(text, c.says) {
				t.Errorf("got %q, want that the clock is %s", text, c.says)
			}
			opstest.WantReason(t, opstest.Explain(t, q, explain.Question{ID: opstest.Enqueue(t, q, queue.Job{Queue: "q"})}), "just-due")
		})
	}
}

// TestFullDisk: the server's disk has become full while a worker runs. Both say so, and explain
// names what the worker's claims fail with. That temporary files have a disk with room does not
// hide it.
func TestFullDisk(t *testing.T) {
	extent.Long(t)
	t.Parallel()
	s := opstest.NewServer(t, 160)
	db, q := s.Migrated(t)
	roomy := filepath.Join(s.Dir, "roomy")
	if err := os.Mkdir(roomy, 0o700); err != nil {
		t.Fatal(err)
	}
	s.Own(t, roomy)
	opstest.Exec(t, db, `CREATE TABLESPACE roomy LOCATION '`+roomy+`'`)
	opstest.Exec(t, db, `ALTER SYSTEM SET temp_tablespaces = roomy`)
	opstest.Exec(t, db, `SELECT pg_reload_conf()`)
	handled := make(chan struct{}, 10)
	opstest.Run(t, engine.Worker{Backend: q, Handler: queue.HandlerFunc(func(context.Context, *queue.Job) error {
		handled <- struct{}{}
		return nil
	}), Logger: slog.New(slog.DiscardHandler)})
	opstest.Enqueue(t, q, queue.Job{})
	<-handled
	opstest.Exec(t, db, `CHECKPOINT`)
	s.Fill(t)
	opstest.WantOnly(t, q, "disk", ops.Fail)
	opstest.Exec(t, db, `UPDATE errand.workers SET seen_at = seen_at - interval '1 minute'`) // as if its reports had failed
	a := opstest.Explain(t, q, explain.Question{ID: opstest.Enqueue(t, q, queue.Job{Queue: "q"})})
	if opstest.ReasonIDs(a) != "disk-full no-worker" {
		t.Errorf("got %s", opstest.ReasonIDs(a))
	}
}

// TestFullDiskSQLite: the disk of the file is full. Both say so.
func TestFullDiskSQLite(t *testing.T) {
	t.Parallel()
	s := &opstest.OwnServer{Dir: t.TempDir()}
	s.Mount(t, 16)
	db, q := opstest.OpenFile(t, filepath.Join(s.Data(), "jobs.db"))
	id := opstest.Enqueue(t, q, queue.Job{})
	opstest.Exec(t, db, `PRAGMA wal_checkpoint(TRUNCATE)`)
	opstest.WantOnly(t, q, "disk", ops.Warn) // a disk of 16 MB
	s.Fill(t)
	opstest.WantOnly(t, q, "disk", ops.Fail)
	a := opstest.Explain(t, q, explain.Question{ID: id})
	if r := a.Reasons[0]; opstest.ReasonIDs(a) != "disk-full no-worker" || !strings.Contains(strings.Join(r.Evidence, "\n"), "has room for 0 kB") {
		t.Errorf("got %s: %+v", opstest.ReasonIDs(a), r)
	}
}
