package jobs

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/errandhq/errand/cmd/errand/internal/cli"
)

// bulkState is what the state file of an import has.
type bulkState struct {
	ID       string     `json:"id"`       // random
	Database string     `json:"database"` // in words
	Input    string     `json:"input"`    // a sum of it
	Done     int        `json:"done"`     // all lines up to this one are done
	At       time.Time  `json:"at"`       // when the last of them was written
	Counts   bulkCounts `json:"counts"`

	file  string    // "": none
	saved time.Time // when the file was last written
}

// openState returns the state of an import: that of the file if there is one, or else s, which it
// writes. An import whose state is on disk may go on after any interruption.
func openState(file string, s bulkState) (*bulkState, error) {
	s.ID, s.At, s.file = "enqueue-"+rand.Text(), time.Now(), file
	if file == "" {
		return &s, nil
	}
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return &s, s.create()
	}
	if err != nil {
		return nil, err
	}
	old := bulkState{file: file}
	switch err := json.Unmarshal(text, &old); {
	case err != nil || old.ID == "":
		return nil, cli.Refusedf("%s is no state of an import: delete it if nothing needs it", file)
	case old.Input != s.Input:
		return nil, cli.Refusedf("the input is not the one whose import was interrupted after line %d: put the old one back, or delete %s to begin a new import", old.Done, file)
	case old.Database != s.Database:
		return nil, cli.Refusedf("the import that was interrupted after line %d is into the %s: name that, or delete %s to begin a new import", old.Done, old.Database, file)
	case time.Since(old.At) > resumeWindow:
		return nil, cli.Refusedf("the import was interrupted after line %d more than %v ago, and the database may have forgotten which of the next lines it has: "+
			"look for them, delete %s, and enqueue the lines that are missing", old.Done, resumeWindow, file)
	}
	return &old, nil
}

// advance notes that all lines up to this one are done. It writes that at most once a second: lines
// that are done and not noted are left out when they are sent again.
func (s *bulkState) advance(line int) error {
	s.Done, s.At = line, time.Now()
	if s.file == "" || time.Since(s.saved) < time.Second {
		return nil
	}
	return s.save()
}

// create writes the file, which must not exist yet, so that two processes never begin one import.
func (s *bulkState) create() error {
	temp, err := s.writeBeside()
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(temp) }()
	if err := os.Link(temp, s.file); err != nil {
		return err
	}
	return syncDir(s.file)
}

// save writes the file anew.
func (s *bulkState) save() error {
	if s.file == "" {
		return nil
	}
	temp, err := s.writeBeside()
	if err != nil {
		return err
	}
	s.saved = time.Now()
	return os.Rename(temp, s.file)
}

// writeBeside writes the state to a new file in the same folder, and returns its name.
func (s *bulkState) writeBeside() (name string, err error) {
	text, err := json.Marshal(s)
	if err != nil {
		return "", err
	}
	f, err := os.CreateTemp(filepath.Dir(s.file), filepath.Base(s.file)+"-")
	if err != nil {
		return "", cli.Usagef("the state of the import cannot be written, name a file for it with --state: %w", err)
	}
	_, err = f.Write(append(text, '\n'))
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		_ = os.Remove(f.Name())
	}
	return f.Name(), err
}

// syncDir has the disk keep the name of a file, on systems that can.
func syncDir(file string) error {
	dir, err := os.Open(filepath.Dir(file))
	if err != nil {
		return err
	}
	defer dir.Close()
	_ = dir.Sync() // Windows cannot
	return nil
}

// remove deletes the file: the import has come to its end.
func (s *bulkState) remove() error {
	if s.file == "" {
		return nil
	}
	return os.Remove(s.file)
}
