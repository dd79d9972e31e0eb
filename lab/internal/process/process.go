// Package process starts the processes in which bench and chaos do their parts, and reads what
// processes have used.
//
// A program is its own child: it starts itself with two arguments, [Argument] and what the child is
// to do. Parent and child speak in lines. The child says "ready" when it has prepared itself; what
// else it says, and what the parent's one line "go" means to it, is the program's matter.
package process

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// Argument is the first argument of a program that is a child. The second says what it is to do.
const Argument = "child"

// Main is the main function of a program that may be its own child. part does a child's work, and
// run the program's, until ctx ends with SIGINT or SIGTERM. The exit status is 1 after an error.
func Main(name string, part func(spec string) error, run func(ctx context.Context, args []string, out, progress io.Writer) error) {
	ExitIfChild(part)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, name+":", err)
		}
		os.Exit(1)
	}
}

// ExitIfChild does nothing in a parent. In a child it does the child's part and ends the process.
// Tests call it in TestMain, so that their program may be its own child.
func ExitIfChild(part func(spec string) error) {
	if len(os.Args) != 3 || os.Args[1] != Argument {
		return
	}
	if err := part(os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}
