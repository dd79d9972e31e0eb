//go:build !linux

package child

import "syscall"

// endWithParent does nothing for the child's end: the child itself notices the end of its input.
func endWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func onMainThread() bool { return false } // it does not matter: here the kernel ends no children
