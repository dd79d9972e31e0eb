package postgres_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/queue"
)

// TestRoomIsWaitedFor: no statement is cancelled because it waits while another makes the table
// longer, which many do at once. Each claims from its own queue, so there are no other waits.
func TestRoomIsWaitedFor(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	const workers, batch = 12, 50
	db, q := fresh(t, postgres.Options{})
	db.SetMaxOpenConns(workers)
	deadline := time.Now().Add(3 * time.Second)
	var all sync.WaitGroup
	for i := range workers {
		all.Go(func() {
			list := payloads(batch)
			for _, j := range list {
				j.Queue = fmt.Sprint("room", i)
			}
			req := request(batch)
			req.Queues = []string{list[0].Queue}
			for time.Now().Before(deadline) {
				if err := enqueueClaimSettle(t.Context(), q, req, list); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	db.SetMaxIdleConns(0) // what a connection has counted is told when it ends
	eventually(t, "the connections have ended", func() bool {
		return value[int](t, db, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()`) == 1
	})
	if n := value[int](t, db, `SELECT xact_rollback FROM pg_stat_database WHERE datname = current_database()`); n > 0 {
		t.Errorf("%d statements were cancelled, want none; of the database, and of autovacuum: %s", n, value[string](t, db, `
			SELECT concat_ws(' ', row_to_json(d), (SELECT json_agg(json_build_object(relname, autovacuum_count)) FROM pg_stat_user_tables))
			FROM pg_stat_database d WHERE datname = current_database()`))
	}
}

func enqueueClaimSettle(ctx context.Context, q *postgres.Backend, req queue.ClaimRequest, list []*queue.Job) error {
	if err := q.Enqueue(ctx, nil, list...); err != nil {
		return err
	}
	held, err := q.Claim(ctx, req)
	if err != nil {
		return err
	}
	outcomes := make([]queue.Outcome, len(held))
	for i, j := range held {
		outcomes[i].Job = j
	}
	_, err = q.Settle(ctx, nil, outcomes...)
	return err
}
