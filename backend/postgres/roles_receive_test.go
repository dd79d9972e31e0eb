package postgres_test

import (
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// testReceive: with the enqueueing and the working role a program receives jobs of other backends,
// as they were. With one of the two roles it does not.
func (r *roles) testReceive(t *testing.T, worker, enqueuer *sql.DB) {
	at := time.Date(2020, 2, 3, 4, 5, 6, 0, time.UTC)
	transfer := driver.Transfer{Source: "outbox 1", Job: &queue.Job{
		Queue: "received", Kind: "test", CreatedAt: at, Attempt: 2, LastError: "declined",
	}}
	for name, db := range map[string]*sql.DB{"worker": worker, "enqueuer": enqueuer} {
		_, err := r.backend(t, db, postgres.Options{}).Receive(t.Context(), transfer)
		denied(t, "Receive as "+name, err)
	}
	exec(t, r.admin, fmt.Sprintf(`CREATE ROLE %sreceiver_user LOGIN PASSWORD 'p' IN ROLE %[1]sworker, %[1]senqueuer`, r.prefix))
	q := r.backend(t, r.login(t, "receiver_user", ""), postgres.Options{})
	if n, err := q.Receive(t.Context(), transfer); err != nil || n != 1 {
		t.Fatalf("Receive with both roles: got %d, error %v; want 1", n, err)
	}
	got, ok, err := q.Job(t.Context(), transfer.Job.ID)
	if err != nil || !ok || !got.CreatedAt.Equal(at) || got.Attempt != 2 || got.LastError != "declined" {
		t.Errorf("the received job: got %+v, error %v; want it as it was", got.Job, err)
	}
	if n, err := q.Receive(t.Context(), transfer); err != nil || n != 0 {
		t.Errorf("Receive again: got %d, error %v; want 0", n, err)
	}
}
