// Package whole says how much of the tests runs. make test tests each backend over the driver that
// most programs take. ERRAND_TESTS=whole, which CI sets, adds what takes minutes: every other
// driver and query mode, and gigabytes of payloads.
package whole

import (
	"os"
	"testing"
)

// Tests reports whether ERRAND_TESTS=whole asks for all tests.
func Tests() bool { return os.Getenv("ERRAND_TESTS") == "whole" }

// Need skips the test unless all tests are asked for. It says why the others leave it out.
func Need(t testing.TB, why string) {
	t.Helper()
	if !Tests() {
		t.Skip("ERRAND_TESTS=whole runs it: ", why)
	}
}
