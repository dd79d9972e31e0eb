package process

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// burn uses CPU time for d.
func burn(d time.Duration) {
	for from := CPU(); CPU()-from < d; {
	}
}

func TestCPUGrowsWithWork(t *testing.T) {
	before := CPU()
	burn(30 * time.Millisecond)
	if used := CPU() - before; used < 30*time.Millisecond || used > 5*time.Second {
		t.Errorf("CPU used by 30 ms of work: got %v", used)
	}
}

func TestPeakRSSIsThePeak(t *testing.T) {
	if _, err := os.Stat("/proc/self/status"); err != nil {
		t.Skip("no /proc")
	}
	block := make([]byte, 64<<20)
	for i := 0; i < len(block); i += 4096 {
		block[i] = 1
	}
	if peak, now := PeakRSS(), RSS(); peak < 64<<20 || peak < now/2 {
		t.Errorf("with %d MB in use: got a peak of %d bytes, %d now", len(block)>>20, peak, now)
	}
}

func TestWrittenGrowsWithAFile(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const memory = 0x01021994 // the type of a file system that writes to no disk
	var fs syscall.Statfs_t
	if _, err := os.Stat("/proc/self/io"); err != nil || syscall.Fstatfs(int(f.Fd()), &fs) != nil || fs.Type == memory {
		t.Skip("no /proc/self/io, or no disk")
	}
	before := Written()
	const size = 1 << 20
	if _, err := f.Write(make([]byte, size)); err != nil {
		t.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	if got := Written() - before; got < size || got > 10*size {
		t.Errorf("by a file of %d bytes: got %d", size, got)
	}
}

func TestServerCPUCountsChildrenThatEnded(t *testing.T) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("no /proc")
	}
	before, ok := ServerCPU(os.Getpid())
	if !ok {
		t.Fatal("ServerCPU of this process: got not ok")
	}
	child := exec.Command("sh", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done")
	if err := child.Run(); err != nil {
		t.Fatal(err)
	}
	after, _ := ServerCPU(os.Getpid())
	used := child.ProcessState.UserTime() + child.ProcessState.SystemTime()
	if got := after - before; got < used-50*time.Millisecond {
		t.Errorf("with a child that used %v: got %v more", used, got)
	}
	if _, ok := ServerCPU(-1); ok {
		t.Error("ServerCPU of no process: got ok")
	}
}
