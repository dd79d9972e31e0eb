//go:build !linux

package child

import "syscall"

// endWithParent leaves it to the child to notice the end of its input.
func endWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func onMainThread() bool { return false } // it does not matter: the kernel ends no children here
