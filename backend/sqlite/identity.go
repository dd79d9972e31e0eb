package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/errandhq/errand/queue"
)

// identity tells the database file from a later file of the same name.
type identity struct {
	path string
	info fs.FileInfo // nil if the file could not be looked at
}

// identify looks at the file at path without opening it, because closing it would drop SQLite's
// locks.
func identify(path string) identity {
	info, err := os.Stat(path)
	if err != nil {
		return identity{path, nil}
	}
	return identity{path, info}
}

// check returns a [*queue.SetupError] if the file has been deleted or replaced. Open connections
// would still write to the old file. No other process sees that file, and it is lost when the last
// of these connections closes.
func (i identity) check() error {
	if i.info == nil {
		return nil
	}
	info, err := os.Stat(i.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fileGone("the database file %s has been deleted since it was opened: restore it and start the program again", i.path)
	case err == nil && !os.SameFile(i.info, info):
		return fileGone("the database file %s has been replaced since it was opened: start the program again", i.path)
	}
	return nil
}

func fileGone(format, path string) error {
	return &queue.SetupError{Problem: fmt.Sprintf(format, path)}
}
