// Withpostgres runs a command, and a PostgreSQL server beside it that all tests of the command share:
//
//	go run ./internal/withpostgres go test ./...
//
// The server is found or started as package postgrestest says. Each test still has a database of its
// own. Without this program each package starts a server for itself, which takes a second.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"

	"github.com/errandhq/errand/backend/postgrestest"
)

// settings leave room for the tests of several packages at once, some of which prepare transactions.
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

// run runs command, and ends the server when the command has ended.
func run(command []string) error {
	server, err := postgrestest.Start(context.Background(), postgrestest.Options{Settings: settings})
	if err != nil {
		return err
	}
	defer server.Close()
	fmt.Fprintln(os.Stderr, "withpostgres:", server.Description)
	signal.Ignore(os.Interrupt) // the terminal sends it to the command, too, which then ends
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), "DATABASE_URL="+server.DSN, "ERRAND_POSTGRES=url", "ERRAND_POSTGRES_BEFORE="+os.Getenv("ERRAND_POSTGRES"))
	return cmd.Run()
}
