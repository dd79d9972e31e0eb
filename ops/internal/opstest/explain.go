package opstest

import (
	"context"
	"database/sql"
	"strings"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/memory"
	"github.com/errandhq/errand/ops/explain"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// Ago returns a minute ago.
func Ago() time.Time { return time.Now().Add(-time.Minute) }

// PidOf returns the process of a session.
func PidOf(t *testing.T, tx *sql.Tx) (pid int) {
	t.Helper()
	if err := tx.QueryRowContext(t.Context(), `SELECT pg_backend_pid()`).Scan(&pid); err != nil {
		t.Fatal(err)
	}
	return pid
}

// Hang runs a statement in a transaction of its own until the end of the test, and returns its
// session when that has waited for a lock for a while.
func Hang(t *testing.T, db *sql.DB, before, statement string) (pid int) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	pid = PidOf(t, tx)
	Exec(t, tx, before)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = tx.ExecContext(ctx, statement)
	}()
	t.Cleanup(func() { cancel(); <-done })
	Eventually(t, "the statement waits", func() (waits bool) {
		err := db.QueryRowContext(t.Context(), `SELECT EXISTS (SELECT FROM pg_locks WHERE pid = $1 AND NOT granted)`, pid).Scan(&waits)
		return err == nil && waits
	})
	time.Sleep(1100 * time.Millisecond)
	return pid
}

// SetRules sets rules.
func SetRules(t *testing.T, q driver.Ruler, rules ...queue.Rule) {
	t.Helper()
	if err := q.SetRules(t.Context(), nil, rules...); err != nil {
		t.Fatal(err)
	}
}

// EveryBackend opens a queue of each backend.
var EveryBackend = map[string]func(t *testing.T) Backends{
	"memory":   func(*testing.T) Backends { return memory.New(memory.Options{}) },
	"postgres": func(t *testing.T) Backends { _, q := Fresh(t); return q },
	"sqlite":   func(t *testing.T) Backends { _, q := FreshFile(t); return q },
	"redis":    func(t *testing.T) Backends { return audited{FreshNamespace(t), memory.New(memory.Options{})} },
}

// ReasonIDs returns the IDs of the reasons.
func ReasonIDs(a explain.Answer) string {
	var ids []string
	for _, r := range a.Reasons {
		ids = append(ids, r.ID)
	}
	return strings.Join(ids, " ")
}

// WantReason fails unless the answer has that reason alone.
func WantReason(t *testing.T, a explain.Answer, id string) {
	t.Helper()
	if len(a.Reasons) != 1 || a.Reasons[0].ID != id {
		t.Errorf("reasons %+v, want %s alone", a.Reasons, id)
	}
}

// Idle is a worker that serves the queues of all cases, and does nothing.
var Idle = driver.WorkerInfo{Name: "idle", Queues: []string{queue.DefaultQueue, "q"}}

// Blocks is a handler that returns when its context ends.
var Blocks = queue.HandlerFunc(func(ctx context.Context, _ *queue.Job) error {
	<-ctx.Done()
	return ctx.Err()
})

// Backends is what the cases need of a backend.
type Backends interface {
	queue.Queue
	driver.Inspector
	driver.Canceller
	driver.Pauser
	driver.Ruler
	driver.Reclaimer
	driver.Fleet
	driver.Editor
	driver.Auditor
}
