// Package machine tells what the machine that runs tests has: a directory in memory, the programs
// of PostgreSQL and PgBouncer, and the account to run them under.
package machine

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// packaged are the places where packagers put initdb and postgres outside PATH: Debian, Red Hat,
// Homebrew on either kind of Mac, Postgres.app.
var packaged = []string{
	"/usr/lib/postgresql/*/bin",
	"/usr/pgsql-*/bin",
	"/opt/homebrew/opt/postgresql@*/bin",
	"/usr/local/opt/postgresql@*/bin",
	"/Applications/Postgres.app/Contents/Versions/*/bin",
}

// PostgresBin returns the directory with initdb and postgres: the first directory in PATH that has
// both, or the newest version where packagers put them.
func PostgresBin() (dir string, err error) {
	return find(filepath.SplitList(os.Getenv("PATH")), packaged)
}

// find returns the first directory in path that has both programs, or the newest that one of the
// patterns matches.
func find(path, patterns []string) (string, error) {
	for _, dir := range path {
		if hasBoth(dir) {
			initdb, err := filepath.EvalSymlinks(filepath.Join(dir, "initdb"))
			return filepath.Dir(initdb), err
		}
	}
	best, newest := "", -1.0
	for _, pattern := range patterns {
		dirs, err := filepath.Glob(pattern)
		if err != nil {
			return "", err
		}
		for _, dir := range dirs {
			if v := pathVersion(dir); v > newest && hasBoth(dir) {
				best, newest = dir, v
			}
		}
	}
	if best == "" {
		return "", fmt.Errorf("initdb and postgres are neither in PATH nor in %s", strings.Join(patterns, ", "))
	}
	return best, nil
}

// hasBoth reports whether initdb and postgres are in dir.
func hasBoth(dir string) bool {
	for _, name := range []string{"initdb", "postgres"} {
		if _, err := exec.LookPath(filepath.Join(dir, name)); err != nil {
			return false
		}
	}
	return true
}

var numbers = regexp.MustCompile(`[0-9]+(\.[0-9]+)?`)

// pathVersion returns the last number in a path, or 0: 15 for /usr/lib/postgresql/15/bin.
func pathVersion(path string) float64 {
	found := numbers.FindAllString(path, -1)
	if len(found) == 0 {
		return 0
	}
	v, err := strconv.ParseFloat(found[len(found)-1], 64)
	if err != nil {
		return 0
	}
	return v
}
