package doctor_test

import (
	"testing"

	"github.com/errandhq/errand/ops/doctor"
	"github.com/errandhq/errand/ops/internal/opstest"
)

// TestFreshNumbers: a check of a fresh table names no number that means nothing.
func TestFreshNumbers(t *testing.T) {
	t.Parallel()
	_, q := opstest.Fresh(t)
	report, err := doctor.Examine(t.Context(), q, doctor.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range report.Checks {
		if c.ID == "dead-rows" && c.Value != "few: at most 10000" {
			t.Errorf("dead-rows: %s", c.Value)
		}
	}
}
