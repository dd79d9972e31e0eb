//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package sqlite

import "os"

func tryLock(*os.File) bool { return true }

func lock(*os.File) {}

func unlock(*os.File) {}
