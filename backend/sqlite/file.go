package sqlite

import (
	"runtime"
	"sync"
	"weak"

	"github.com/errandhq/errand/backend/sqlite/internal/writelock"
)

// file is a database file. All backends of this process that use it share one.
type file struct {
	lock   *writelock.Lock
	claims txClaims

	mu         sync.Mutex
	sleepers   map[*sleeper]struct{}
	cancellers map[*canceller]struct{}
}

// files holds the files in use, by the paths that SQLite returns, in which links are resolved.
var files = struct {
	mu sync.Mutex
	at map[string]weak.Pointer[file]
}{at: make(map[string]weak.Pointer[file])}

// fileAt returns the file at path, which all its users in this process share.
func fileAt(path string) *file {
	files.mu.Lock()
	defer files.mu.Unlock()
	if f := files.at[path].Value(); f != nil {
		return f
	}
	f := &file{lock: writelock.New(path), sleepers: make(map[*sleeper]struct{}), cancellers: make(map[*canceller]struct{})}
	files.at[path] = weak.Make(f)
	runtime.AddCleanup(f, forget, path)
	return f
}

// forget drops the entry of a file that no backend uses.
func forget(path string) {
	files.mu.Lock()
	defer files.mu.Unlock()
	if files.at[path].Value() == nil {
		delete(files.at, path)
	}
}
