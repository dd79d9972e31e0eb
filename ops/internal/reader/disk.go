package reader

import (
	"context"
	"database/sql"
	"path/filepath"
)

// The codes of errors of a statement that the disk had no room for, and of one that may not write
// so much to temporary files.
const (
	diskFull      = "53100"
	tempFileLimit = "53400"
)

// smallMemory makes the next statement of a transaction write what it needs to temporary files, on
// the disk of the database.
const smallMemory = "SELECT set_config('work_mem', '64', true), set_config('temp_tablespaces', '', true)"

// IsFull reports whether the disk of the database has no room for a temporary file of a megabyte.
func (s *Server) IsFull(ctx context.Context) (bool, error) {
	err := s.queryAfter(ctx, smallMemory, s.Load("disk"), func(*sql.Rows) error { return nil })
	switch SQLState(err) {
	case diskFull:
		return true, nil
	case tempFileLimit:
		return false, nil
	}
	return false, err
}

// The room on the disk of a SQLite file from which on it is too little.
const (
	LittleRoom    = 64 << 20
	TooLittleRoom = 1 << 20
)

// Room returns how many bytes the disk of the file has room for.
func (f *File) Room() (n int64, ok bool) {
	if f.Path == "" { // in memory
		return 0, false
	}
	return freeBytes(filepath.Dir(f.Path))
}
