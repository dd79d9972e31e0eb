package server

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
)

// binaryDirs is where packagers put initdb and postgres, outside PATH.
var binaryDirs = []string{
	"/usr/lib/postgresql/*/bin",
	"/usr/pgsql-*/bin",
	"/opt/homebrew/opt/postgresql@*/bin",
	"/usr/local/opt/postgresql@*/bin",
	"/Applications/Postgres.app/Contents/Versions/*/bin",
}

// findBinaries returns the directory with initdb and postgres, as package
// postgrestest finds it: the first in path that has both, or the newest that one of the
// patterns matches.
func findBinaries(path, patterns []string) (string, error) {
	for _, dir := range path {
		if hasBinaries(dir) {
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
			if v := pathVersion(dir); v > newest && hasBinaries(dir) {
				best, newest = dir, v
			}
		}
	}
	if best == "" {
		return "", fmt.Errorf("initdb and postgres are neither in PATH nor in %s", strings.Join(patterns, ", "))
	}
	return best, nil
}

func hasBinaries(dir string) bool {
	for _, name := range []string{"initdb", "postgres"} {
		if _, err := exec.LookPath(filepath.Join(dir, name)); err != nil {
			return false
		}
	}
	return true
}

var numbers = regexp.MustCompile(`[0-9]+(\.[0-9]+)?`)

// pathVersion is the last number in a path, or 0: 15 for /usr/lib/postgresql/15/bin.
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

// unprivileged returns the account to run Postgres under, which refuses to be
// root's: nil, our own, unless we are root.
func unprivileged() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.ParseUint(u.Uid, 10, 32)
		if err != nil {
			return nil, err
		}
		gid, err := strconv.ParseUint(u.Gid, 10, 32)
		if err != nil {
			return nil, err
		}
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
	}
	return nil, errors.New("PostgreSQL does not run as root, and there is neither a user postgres nor a user nobody")
}

// freePort returns a TCP port that is free now and stays so while the server is
// down: it is below the range that clients' own ends are numbered from. A client that
// calls a port within it at which nobody listens may be given the very same number,
// and then talks to itself, and has the port.
func freePort() (string, error) {
	const first, last = 15000, 30000
	var err error
	for range 100 {
		port := strconv.Itoa(first + rand.IntN(last-first))
		var l net.Listener
		if l, err = net.Listen("tcp", net.JoinHostPort("127.0.0.1", port)); err == nil {
			return port, l.Close()
		}
	}
	return "", fmt.Errorf("no free port: %w", err)
}
