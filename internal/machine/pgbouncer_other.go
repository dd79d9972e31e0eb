//go:build !unix

package machine

import "testing"

// StartPgBouncer skips the test.
func StartPgBouncer(t testing.TB, _, _ string) string {
	t.Helper()
	t.Skip("PgBouncer is started on Unix only")
	return ""
}

// StartPgBouncerSize skips the test.
func StartPgBouncerSize(t testing.TB, _, _ string, _ int) string {
	t.Helper()
	return StartPgBouncer(t, "", "")
}
