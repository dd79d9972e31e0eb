//go:build !linux

// Package memdir finds a directory in memory for the files of tests.
package memdir

// Find returns "": there is no usual directory in memory.
func Find() string { return "" }
