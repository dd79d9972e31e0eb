package child

import (
	"os"
	"syscall"
)

// endWithParent makes the kernel kill the child when its parent ends, even if the child is frozen.
// The child has a process group of its own, so that only the parent gets ctrl-C.
func endWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}

func onMainThread() bool { return syscall.Gettid() == os.Getpid() }
