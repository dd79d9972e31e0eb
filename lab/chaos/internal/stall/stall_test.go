package stall

import (
	"os"
	"testing"
	"time"
)

func TestMeter(t *testing.T) {
	dir := t.TempDir()
	m, err := Start(dir)
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * write)
	processor, disk, err := m.Stop()
	if err != nil || processor <= 0 || disk <= 0 {
		t.Errorf("got %v and %v, %v, want a little of each", processor, disk, err)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 0 {
		t.Errorf("left behind: %v, %v", files, err)
	}
}

func TestNoFolder(t *testing.T) {
	if _, err := Start("/no/such/folder"); err == nil {
		t.Error("got nil, want an error")
	}
}
