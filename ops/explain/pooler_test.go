package explain_test

import (
	"errors"
	"strings"
	"testing"

	_ "github.com/lib/pq"

	"github.com/errandhq/errand/internal/reach"
	"github.com/errandhq/errand/ops/explain"
	"github.com/errandhq/errand/ops/internal/opstest"
	"github.com/errandhq/errand/queue"
)

// TestLostStatements: if prepared statements are not those of the session, as behind a PgBouncer
// that does not keep them, the error says what to do.
func TestLostStatements(t *testing.T) {
	t.Parallel()
	db, q := opstest.Fresh(t)
	db.SetMaxOpenConns(1)
	id := opstest.Enqueue(t, q, queue.Job{})
	opstest.Explain(t, q, explain.Question{ID: id}) // prepares
	opstest.Exec(t, db, `DEALLOCATE ALL`)
	_, err := explain.Job(t.Context(), q, explain.Question{ID: id})
	if e, ok := errors.AsType[*reach.Error](err); !ok || !strings.Contains(e.Problem, "keeps no prepared statements") ||
		!strings.Contains(e.Advice, "default_query_exec_mode=exec") {
		t.Errorf("Explain: error %v", err)
	}
}
