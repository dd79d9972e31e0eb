package explain_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/ops"
	"github.com/errandhq/errand/ops/doctor"
	"github.com/errandhq/errand/ops/explain"
	"github.com/errandhq/errand/ops/internal/opstest"
	"github.com/errandhq/errand/queue"
)

// TestReadOnly: a database that takes no writes is named by both, with a statement that the server
// accepts.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	for _, role := range []bool{false, true} {
		t.Run(fmt.Sprintf("role=%v", role), func(t *testing.T) {
			t.Parallel()
			db := opstest.OpenPQ(t, postgrestest.DSN(t))
			prefix := opstest.Roles(t, db)
			q := opstest.Backend(t, db, postgres.Options{})
			id := opstest.Enqueue(t, q, queue.Job{})
			level, where := ops.Fail, "for the database "
			if role {
				level, where = ops.Warn, "for the role "+prefix+"app"
				opstest.Exec(t, db, fmt.Sprintf("CREATE ROLE %sapp LOGIN IN ROLE %[1]sworker; ALTER ROLE %[1]sapp SET default_transaction_read_only = yes", prefix))
			} else {
				opstest.SetDefault(t, db, "default_transaction_read_only", "on")
			}
			a := opstest.Explain(t, q, explain.Question{ID: id})
			if opstest.ReasonIDs(a) != "read-only no-worker" || !strings.Contains(a.Reasons[0].Verdict, where) {
				t.Errorf("got %s: %s", opstest.ReasonIDs(a), a.Reasons[0].Verdict)
			}
			c := opstest.Examine(t, q, doctor.Options{})["writable"]
			if c.Level != level || !strings.Contains(c.Value, where) || !strings.Contains(c.Advice, "restart the workers") {
				t.Errorf("found %+v, want %s", c, where)
			}
			_, statement, _ := strings.Cut(c.Advice, "= off): ")
			statement, _, _ = strings.Cut(statement, ". Then")
			conn, err := db.Conn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if _, err := conn.ExecContext(t.Context(), statement); err == nil && !role {
				t.Error("the server accepts the statement without what comes before it")
			}
			opstest.Exec(t, conn, "SET default_transaction_read_only = off")
			opstest.Exec(t, conn, statement)
			db.SetMaxIdleConns(0)
			if c, ok := opstest.Examine(t, q, doctor.Options{})["writable"]; ok {
				t.Errorf("after %s: found %v", statement, c)
			}
			opstest.WantReason(t, opstest.Explain(t, q, explain.Question{ID: id}), "no-worker")
		})
	}
}
