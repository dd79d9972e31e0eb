//go:build !linux

package machine

// Memory returns "": there is no usual directory in memory.
func Memory() string { return "" }

// SharedMemory returns "".
func SharedMemory() (dir string, release func() error, err error) {
	return "", func() error { return nil }, nil
}
