//go:build !unix

package pgbouncer

import "testing"

// Start skips the test.
func Start(t testing.TB, _, _ string) string {
	t.Helper()
	t.Skip("PgBouncer is started on Unix only")
	return ""
}
