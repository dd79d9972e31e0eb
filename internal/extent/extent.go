// Package extent says how much of the tests runs. make test tests each backend over the driver that
// most programs take. With -short, as in make check, it leaves out what takes half a second of
// processor time or several seconds: crowds of callers, thousands of jobs, killed processes,
// outages. ERRAND_TESTS=whole, which CI sets, adds what takes minutes: every other driver, query
// mode and combination of backends, and gigabytes of payloads.
package extent

import (
	"os"
	"testing"
)

// Whole reports whether ERRAND_TESTS=whole asks for all tests.
func Whole() bool { return os.Getenv("ERRAND_TESTS") == "whole" }

// Long skips a test that -short leaves out, because it takes long.
func Long(t interface {
	Helper()
	Skip(args ...any)
}) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes long; make test runs it")
	}
}
