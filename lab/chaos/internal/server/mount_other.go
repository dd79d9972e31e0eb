//go:build !linux

package server

func mount(string, string) error { return ErrNoDisk }

func unmount(string) error { return nil }
