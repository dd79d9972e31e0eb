// Withpostgres runs a command, and a PostgreSQL server beside it that all tests of the command
// share:
//
//	go run ./internal/withpostgres go test ./...
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

	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/internal/memdir"
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
		"DATABASE_URL=" + server.DSN,
		"ERRAND_POSTGRES_BEFORE=" + os.Getenv("ERRAND_POSTGRES"), // for the tests of postgrestest
		"ERRAND_POSTGRES=url",
	}
	if os.Getenv("TMPDIR") == "" {
		dir, release, shareErr := memdir.Shared()
		if shareErr != nil {
			return shareErr
		}
		defer func() { err = errors.Join(err, release()) }()
		if dir != "" {
			env = append(env, "TMPDIR="+dir, "GOTMPDIR="+os.TempDir()) // programs stay on disk
		}
	}
	return start(command, env)
}

// start runs command with further environment variables.
func start(command, env []string) error {
	signal.Notify(make(chan os.Signal, 1), os.Interrupt) // the terminal sends it to the command, too, which then ends
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), env...)
	return cmd.Run()
}
