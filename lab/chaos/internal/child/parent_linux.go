package child

import (
	"os"
	"syscall"
)

// endWithParent has the kernel kill a child, a frozen one too, when its parent ends.
// A group of its own keeps it out of ctrl-C's reach: that is for the parent.
func endWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}

func onMainThread() bool { return syscall.Gettid() == os.Getpid() }
