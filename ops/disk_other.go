//go:build !(linux || darwin || freebsd)

package ops

// freeBytes knows nothing on this system.
func freeBytes(string) (n int64, ok bool) { return 0, false }
