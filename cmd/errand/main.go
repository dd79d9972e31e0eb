// Command errand looks at a queue and operates it from a terminal, on PostgreSQL or in a SQLite
// file. docs/command-line.md shows each command.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/errandhq/errand/cmd/errand/internal/cli"
)

func main() { start(time.Second) }

// start runs the program and exits. Completion may ask the database for completionTime.
func start(completionTime time.Duration) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	a := &cli.App{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Getenv: os.Getenv, CompletionTime: completionTime}
	os.Exit(run(ctx, a, os.Args[1:]))
}
