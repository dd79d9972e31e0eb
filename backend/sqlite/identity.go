package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/errandhq/errand/queue"
)

// identity tells the database file from another one that takes its name.
type identity struct {
	path string
	info fs.FileInfo // nil where it is not known
}

// identify looks at the file at path. It does not open it: when the process closed it again, SQLite's locks would be gone.
func identify(path string) identity {
	info, err := os.Stat(path)
	if err != nil {
		return identity{path, nil}
	}
	return identity{path, info}
}

// check returns a [*queue.SetupError] where the file has been deleted, or another has taken its place. Connections that are open would go on writing to
// the old one, where no other process sees it and which is lost with the last of them.
func (i identity) check() error {
	if i.info == nil {
		return nil
	}
	info, err := os.Stat(i.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return taken("the database file %s has been deleted since it was opened: restore it and start the program again", i.path)
	case err == nil && !os.SameFile(i.info, info):
		return taken("the database file %s has been replaced since it was opened: start the program again", i.path)
	}
	return nil
}

func taken(format, path string) error { return &queue.SetupError{Problem: fmt.Sprintf(format, path)} }
