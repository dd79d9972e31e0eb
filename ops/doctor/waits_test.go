package doctor_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/ops/doctor"
	"github.com/errandhq/errand/ops/internal/opstest"
	"github.com/errandhq/errand/queue"
)

// TestWaitsForRule: doctor names a session for which others wait at a row of a table other than
// that of jobs.
func TestWaitsForRule(t *testing.T) {
	extent.Long(t)
	t.Parallel()
	db, q := opstest.Fresh(t)
	opstest.SetRules(t, q, queue.Rule{Queue: "q", Running: 1})
	holder := opstest.Begin(t, db)
	opstest.Exec(t, holder, `SELECT FROM errand.rules FOR UPDATE`)
	opstest.Hang(t, db, `SELECT 1`, `UPDATE errand.rules SET running = 2`)
	if c := opstest.Examine(t, q, doctor.Options{})["waits"]; !strings.HasPrefix(c.Value, fmt.Sprintf("session %d", opstest.PidOf(t, holder))) || !strings.HasSuffix(c.Value, "1 session waits for it") {
		t.Errorf("found %+v", c)
	}
}
