// Package process starts the child processes of bench and chaos, and reads what processes have
// used.
//
// A program is its own child: it starts itself with two arguments, [Argument] and a spec. Parent
// and child talk in lines. The child prints "ready" when it is prepared. The parent can send one
// line, "go". The two programs define what that means and what else the child prints.
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

// Argument is the first argument of a program that is a child. The second is the child's spec.
const Argument = "child"

// Main is the main function of a program that can be its own child. In a child it calls part. In a
// parent it calls run, whose ctx ends with SIGINT or SIGTERM. The exit status is 1 after an error.
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

// ExitIfChild does nothing in a parent. In a child it calls part and ends the process. Tests call
// it in TestMain, so that their program can be its own child.
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
