package writelock

import (
	"io/fs"
	"os"
)

// openTurnFile opens the file of the line for the database at path, and creates it where it is
// missing. It has the database's mode: a user that may not open the one may not open the other.
// openTurnFile returns nil where there can be no such file.
func openTurnFile(path string) *os.File {
	database, err := os.Stat(path)
	if err != nil {
		return nil
	}
	mode := database.Mode().Perm()
	// Reading is enough to lock.
	at, err := os.OpenFile(path+"-turn", os.O_RDONLY|os.O_CREATE|os.O_EXCL|noFollow, mode)
	if err == nil {
		_ = at.Chmod(mode) // whatever the umask
		adopt(at, database)
		return at
	}
	if at, err = os.OpenFile(path+"-turn", os.O_RDONLY|noFollow, 0); err != nil {
		return nil
	}
	if !narrow(at, mode) {
		_ = at.Close()
		return nil
	}
	return at
}

// narrow takes from the file the permissions that mode does not have, which only its owner can do.
// It reports whether it is a regular file.
func narrow(at *os.File, mode fs.FileMode) bool {
	info, err := at.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	if perm := info.Mode().Perm(); perm&^mode != 0 {
		_ = at.Chmod(perm & mode)
	}
	return true
}
