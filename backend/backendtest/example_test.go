package backendtest_test

import (
	"testing"

	"github.com/errandhq/errand/backend/backendtest"
	"github.com/errandhq/errand/backend/memory"
)

// A backend's test is one call.
func ExampleRun() {
	_ = func(t *testing.T) { // func TestConformance(t *testing.T)
		backendtest.Run(t, func(t *testing.T) backendtest.Harness {
			q := memory.New(memory.Options{}) // a fresh database for each case
			return backendtest.Harness{Queue: q, Begin: q.Begin}
		})
	}
}
