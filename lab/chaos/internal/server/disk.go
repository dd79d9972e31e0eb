package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// ErrNoDisk says that this process has no right to mount a file system for a server.
var ErrNoDisk = errors.New("mounting a file system needs root, and Linux")

// StartOnDisk is Start with a file system for this server alone, in memory, of so many bytes.
func (s *Servers) StartOnDisk(ctx context.Context, name string, settings map[string]string, bytes int64) (*Postgres, error) {
	data := filepath.Join(s.dir, name)
	if err := os.Mkdir(data, 0o700); err != nil {
		return nil, err
	}
	if err := MountMemory(data, bytes); err != nil {
		return nil, errors.Join(err, os.Remove(data))
	}
	p := &Postgres{servers: s, data: data, log: s.log(name), settings: settings, mounted: true}
	s.register(p)
	if err := s.chown(data); err != nil {
		return nil, err
	}
	return p, p.begin(ctx)
}

// MountMemory mounts an empty file system in memory at dir, of so many bytes.
func MountMemory(dir string, bytes int64) error {
	return mount(dir, fmt.Sprintf("size=%d,mode=0700", bytes))
}

// Ballast is a file that fills a server's disk.
type Ballast struct{ file *os.File }

// Ballast makes a file on the server's disk. It takes no space before Grow.
func (p *Postgres) Ballast() (*Ballast, error) { return NewBallast(p.data) }

// NewBallast makes a file in a folder. It takes no space before Grow.
func NewBallast(dir string) (*Ballast, error) {
	file, err := os.OpenFile(filepath.Join(dir, "ballast"), os.O_CREATE|os.O_WRONLY, 0o600)
	return &Ballast{file}, err
}

// Grow makes the file take all free space, and returns how much it took.
func (b *Ballast) Grow() (bytes int64, err error) {
	zeros := make([]byte, 64<<10)
	for len(zeros) > 0 {
		n, err := b.file.Write(zeros)
		bytes += int64(n)
		if errors.Is(err, syscall.ENOSPC) {
			zeros = zeros[:len(zeros)/2]
		} else if err != nil {
			return bytes, err
		}
	}
	return bytes, nil
}

// Release frees the space.
func (b *Ballast) Release() error { return errors.Join(b.file.Close(), os.Remove(b.file.Name())) }

// HasEnded reports whether the server has ended, for whatever reason.
func (p *Postgres) HasEnded() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// CountInLog returns how often a text is in the server's log.
func (p *Postgres) CountInLog(text string) (int, error) {
	log, err := os.ReadFile(p.log)
	return strings.Count(string(log), text), err
}
