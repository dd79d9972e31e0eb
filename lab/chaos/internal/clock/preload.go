package clock

import (
	"context"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// ErrNoPreload says that this machine has no C compiler.
var ErrNoPreload = errors.New("clock: there is no gcc")

//go:embed step.c.txt
var stepSource []byte

// Preload builds a library for a server in C, in a folder, and returns what to add to the
// environment of the server. After that Set makes the server's wall clock jump. libfaketime does
// not work with Redis: its allocator, jemalloc, asks for the time too early.
func Preload(ctx context.Context, dir string) (environment []string, err error) {
	compiler, err := exec.LookPath("gcc")
	if err != nil {
		return nil, ErrNoPreload
	}
	source, library := filepath.Join(dir, "step.c"), filepath.Join(dir, "step.so")
	if err := os.WriteFile(source, stepSource, 0o644); err != nil {
		return nil, err
	}
	if text, err := exec.CommandContext(ctx, compiler, "-O1", "-shared", "-fPIC", "-o", library, source).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("clock: gcc: %w: %s", err, text)
	}
	return []string{"LD_PRELOAD=" + library}, nil
}

// Set sets by how much the clock of the server that runs in a folder is off, in whole seconds. It
// is called a first time before the server starts.
func Set(dir string, off time.Duration) error {
	file, err := os.OpenFile(filepath.Join(dir, "clock"), os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = file.Write(binary.NativeEndian.AppendUint64(nil, uint64(off/time.Second)))
	return errors.Join(err, file.Close())
}
