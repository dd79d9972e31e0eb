package ops

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"slices"
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

// isFull reports whether the disk of the database has no room for a temporary file of a megabyte.
func (s *server) isFull(ctx context.Context) (bool, error) {
	err := s.queryAfter(ctx, smallMemory, s.load("disk"), func(*sql.Rows) error { return nil })
	switch sqlState(err) {
	case diskFull:
		return true, nil
	case tempFileLimit:
		return false, nil
	}
	return false, err
}

// makeRoom is what to do about a disk that is full.
const makeRoom = "make room on it: delete files that are no part of the database, or make the disk larger. " +
	"See the checks horizon and retention for what keeps tables from shrinking, and pg_replication_slots for what keeps WAL"

func disk(ctx context.Context, d *doctor) (finding, error) {
	isFull, err := d.Server.isFull(ctx)
	switch {
	case err != nil:
		return finding{}, err
	case isFull:
		return finding{Fail, "the server's disk is full: it has no room for a temporary file of a megabyte", makeRoom}, nil
	}
	return finding{value: "not full, as far as a temporary file of a megabyte tells"}, nil
}

// The room on the disk of a SQLite file from which on it is too little.
const (
	littleRoom    = 64 << 20
	tooLittleRoom = 1 << 20
)

func fileDisk(_ context.Context, d *doctor) (finding, error) {
	free, ok := d.File.room()
	if !ok {
		return finding{level: Skipped, value: "not known for this file, or on this system"}, nil
	}
	return finding{levelOf(-free, -littleRoom, -tooLittleRoom), fmt.Sprintf("the disk of the file has room for %d MB", free>>20),
		"make room on it: no job is written, claimed or settled on a full disk"}, nil
}

// room returns how many bytes the disk of the file has room for.
func (f *file) room() (n int64, ok bool) {
	if f.path == "" { // in memory
		return 0, false
	}
	return freeBytes(filepath.Dir(f.path))
}

// whyDiskFull returns the reason if the disk is full, and no worker is known whose claims succeed.
func whyDiskFull(ctx context.Context, q *inquiry) ([]Reason, error) {
	if q.job.ScheduledAt.After(q.at) || slices.ContainsFunc(q.workers, claims) {
		return nil, nil
	}
	r := Reason{ID: "disk-full", Level: Fail, Verdict: "The disk of the database is full, so workers can neither claim nor report themselves.",
		Evidence: []string{"no worker is known whose claims succeed"}, Remedy: makeRoom}
	switch {
	case q.Server != nil:
		isFull, err := q.Server.isFull(ctx)
		if ok, err := q.tryOrNote(ctx, "whether the server's disk is full", err); !ok || !isFull {
			return nil, err
		}
		r.Verdict = "The server's disk is full (it has no room for a temporary file of a megabyte), so workers can perhaps neither claim nor report themselves."
		return []Reason{r}, nil
	case q.File != nil:
		q.File.find(ctx)
		free, ok := q.File.room()
		if !ok || free >= tooLittleRoom {
			return nil, nil
		}
		r.Evidence = append(r.Evidence, fmt.Sprintf("the disk of the file has room for %d kB", free>>10))
		r.Remedy = "make room on it"
		return []Reason{r}, nil
	}
	return nil, nil
}
