//go:build !linux

// Package memdir finds a directory in memory for the files of tests.
package memdir

// Find returns "": there is no usual directory in memory.
func Find() string { return "" }

// Shared returns "".
func Shared() (dir string, release func() error, err error) {
	return "", func() error { return nil }, nil
}
