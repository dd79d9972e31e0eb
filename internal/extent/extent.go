// Package extent says how much of the tests runs. make test tests each backend over the driver that
// most programs take. ERRAND_TESTS=whole, which CI sets, adds what takes minutes: every other
// driver, query mode and combination of backends, and gigabytes of payloads. ERRAND_TESTS=brief,
// which make check sets, leaves out what takes half a second of processor time or several seconds:
// crowds of callers, thousands of jobs, killed processes, outages.
package extent

import "os"

// Whole reports whether ERRAND_TESTS=whole asks for all tests.
func Whole() bool { return os.Getenv("ERRAND_TESTS") == "whole" }

// Brief reports whether ERRAND_TESTS=brief asks for the quick tests alone.
func Brief() bool { return os.Getenv("ERRAND_TESTS") == "brief" }

// Long skips a test that make check leaves out, because it takes long.
func Long(t interface {
	Helper()
	Skip(args ...any)
}) {
	t.Helper()
	if Brief() {
		t.Skip("takes long; make test runs it")
	}
}
