package writelock

import (
	"io/fs"
	"os"
)

// openTurnFile opens the lock file of the database at path, and creates it if it is missing. The
// file has the mode of the database, so a user that may not open the database may not open this
// file. openTurnFile returns nil if there can be no such file.
func openTurnFile(path string) *os.File {
	database, err := os.Stat(path)
	if err != nil {
		return nil
	}
	mode := database.Mode().Perm()
	// A file that is open for reading can be locked.
	at, err := os.OpenFile(path+"-turn", os.O_RDONLY|os.O_CREATE|os.O_EXCL|noFollow, mode)
	if err == nil {
		_ = at.Chmod(mode) // whatever the umask
		chownToOwnerOf(at, database)
		return at
	}
	if at, err = os.OpenFile(path+"-turn", os.O_RDONLY|noFollow, 0); err != nil {
		return nil
	}
	if !dropExtraPermissions(at, mode) {
		_ = at.Close()
		return nil
	}
	return at
}

// dropExtraPermissions removes the permissions of the file that mode does not have. Only the owner
// of the file can do that. It reports whether the file is a regular file.
func dropExtraPermissions(at *os.File, mode fs.FileMode) bool {
	info, err := at.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	if perm := info.Mode().Perm(); perm&^mode != 0 {
		_ = at.Chmod(perm & mode)
	}
	return true
}
