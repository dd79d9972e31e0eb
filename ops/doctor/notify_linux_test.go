package doctor_test

import (
	"strings"
	"testing"

	"github.com/errandhq/errand/ops"
	"github.com/errandhq/errand/ops/internal/opstest"
)

// TestNotifyQueue: a session that listens and has a transaction open keeps notifications in the
// server's queue.
func TestNotifyQueue(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 900 MB")
	}
	t.Parallel()
	db, q := opstest.NewServer(t, 0).Migrated(t)
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	opstest.Exec(t, conn, `LISTEN x`)
	opstest.Exec(t, conn, `BEGIN`)
	for range 12 { // an eighth of the queue, which has 8 GB
		opstest.Exec(t, db, `SELECT pg_notify('x', repeat('x', 7900) || n) FROM generate_series(1, 10000) AS n`)
	}
	if c := opstest.WantOnly(t, q, "notify-queue", ops.Warn); !strings.Contains(c.Value, "11 % of the server's queue") {
		t.Errorf("got %+v", c)
	}
}
