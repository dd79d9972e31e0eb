//go:build !(linux || darwin || freebsd)

package reader

// freeBytes knows nothing on this system.
func freeBytes(string) (n int64, ok bool) { return 0, false }
