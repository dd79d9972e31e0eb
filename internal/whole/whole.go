// Package whole says how much of the tests runs. make test tests each backend over the driver that
// most programs take. ERRAND_TESTS=whole, which CI sets, adds what takes minutes: every other
// driver, query mode and combination of backends, and gigabytes of payloads.
package whole

import "os"

// Tests reports whether ERRAND_TESTS=whole asks for all tests.
func Tests() bool { return os.Getenv("ERRAND_TESTS") == "whole" }
