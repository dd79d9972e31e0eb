//go:build !unix

package pgbouncer

import "testing"

// Start skips the test.
func Start(t testing.TB, _, _ string) string {
	t.Helper()
	t.Skip("PgBouncer is started on Unix only")
	return ""
}

// StartSize skips the test.
func StartSize(t testing.TB, _, _ string, _ int) string {
	t.Helper()
	return Start(t, "", "")
}
