//go:build !unix

package postgrestest

import (
	"context"
	"errors"
	"runtime"
)

// startLocal refuses: localScript needs a POSIX shell.
func startLocal(context.Context, Options) (*Server, error) {
	return nil, errors.New("a server is not started from local binaries on " + runtime.GOOS + ": set DATABASE_URL, or start Docker")
}
