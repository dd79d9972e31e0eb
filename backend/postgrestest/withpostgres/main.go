// Withpostgres runs a command, and a PostgreSQL server beside it that all tests of the command
// share:
//
//	go run ./backend/postgrestest/withpostgres go test ./...
//
// It finds or starts the server as package postgrestest says; each test still has a database of its
// own. Without this program each package starts a server for itself, which takes a second. The
// command's temporary files are in memory if there is plenty, unless TMPDIR names a place.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"

	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/internal/machine"
)

// settings leave room for the tests of several packages at once, some of which prepare
// transactions.
var settings = map[string]string{
	"max_connections":           "500",
	"max_prepared_transactions": "50",
}

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: withpostgres COMMAND [ARGUMENT...]")
		os.Exit(2)
	}
	err := run(os.Args[1:])
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		os.Exit(max(1, exit.ExitCode()))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "withpostgres:", err)
		os.Exit(1)
	}
}

// run runs command. It ends the server and removes the temporary files when the command has ended.
func run(command []string) (err error) {
	if os.Getenv("DATABASE_URL") != "" { // the server that all share is there
		return start(command, nil)
	}
	server, err := postgrestest.Start(context.Background(), postgrestest.Options{Settings: settings})
	if err != nil {
		return err
	}
	defer server.Close()
	fmt.Fprintln(os.Stderr, "withpostgres:", server.Description)
	env := []string{
		"ERRAND_POSTGRES_BEFORE=" + os.Getenv("ERRAND_POSTGRES"), // for the tests of postgrestest
		"ERRAND_POSTGRES=url",
	}
	var dir string
	if os.Getenv("TMPDIR") == "" {
		var release func() error
		if dir, release, err = machine.SharedMemory(); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, release()) }()
		if dir != "" {
			env = append(env, "TMPDIR="+dir, "GOTMPDIR="+os.TempDir()) // programs stay on disk
		}
	}
	file, err := write(server, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(file)) }()
	return start(command, append(env, "DATABASE_URL=file:"+file))
}

// write writes the server's URL to a file in dir, or in the usual directory if dir is "", and
// returns the file's path. In dir the name is always the same for the same version of PostgreSQL,
// unless another run uses it: go test takes the result of a test that has read DATABASE_URL from
// its cache only if DATABASE_URL is as it was, and the server's port never is.
func write(server *postgrestest.Server, dir string) (path string, err error) {
	var file *os.File
	if dir != "" {
		version := strings.Fields(server.Description)[1]
		file, err = os.OpenFile(filepath.Join(dir, "postgres-"+version), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	}
	if file == nil {
		file, err = os.CreateTemp(dir, "errand-postgres-")
	}
	if err != nil {
		return "", err
	}
	_, err = file.WriteString(server.DSN)
	return file.Name(), errors.Join(err, file.Close())
}

// start runs command with further environment variables.
func start(command, env []string) error {
	signal.Notify(make(chan os.Signal, 1), os.Interrupt) // the terminal sends it to the command, too, which then ends
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), env...)
	return cmd.Run()
}
