package postgres_test

import (
	"database/sql"
	"testing"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/queue"
)

// TestSettleDeadlock has a transaction that settles two jobs deadlock with another that has locked them the other way round, which it
// lets go first. Neither is told.
func TestSettleDeadlock(t *testing.T) {
	db, q := fresh(t, postgres.Options{})
	enqueue(t, q, jobs(2)...)
	held := claim(t, q, 2)
	var txs [2]*sql.Tx
	for i := range txs {
		var err error
		if txs[i], err = db.BeginTx(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		defer txs[i].Rollback()
	}
	tx, other := txs[0], txs[1]
	exec(t, other, "SET LOCAL deadlock_timeout = '1h'") // so that it is Settle that is ended
	exec(t, other, "SELECT FROM errand.jobs WHERE id = $1 FOR UPDATE", held[1].ID)
	settled := make(chan error, 1)
	go func() {
		lost, err := q.Settle(t.Context(), tx, queue.Outcome{Job: held[0], Verb: queue.Done}, queue.Outcome{Job: held[1], Verb: queue.Done})
		if err == nil && len(lost) > 0 {
			t.Errorf("%d jobs are lost, want none", len(lost))
		}
		settled <- err
	}()
	eventually(t, "Settle waits", func() bool {
		return value[int](t, db, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`) == 1
	})
	exec(t, other, "SELECT FROM errand.jobs WHERE id = $1 FOR UPDATE", held[0].ID)
	if err := other.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := <-settled; err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if got := value[string](t, db, `SELECT string_agg(status::text, ' ' ORDER BY id) FROM errand.jobs`); got != "completed completed" {
		t.Errorf("got %s, want completed completed", got)
	}
}
