package main

import (
	"bufio"
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/errandhq/errand/internal/plain"
	"github.com/errandhq/errand/queue"
)

// examples is how many of the chosen jobs are shown.
const examples = 10

// confirm shows some of the n chosen jobs, and asks for n.
func (a *app) confirm(ctx context.Context, op *operation, s selection, shown []queue.Record, n int) error {
	if err := a.noteTable(jobTable(shown, false)); err != nil {
		return err
	}
	if n > len(shown) {
		fmt.Fprintf(a.err, "and %d more\n", n-len(shown))
	}
	fmt.Fprintf(a.err, "%s: %s with %s\n", op.name, countText(n, "job"), plain.Line(s.text()))
	if s.yes || s.dryRun {
		return nil
	}
	if _, ok := terminal(a.in); !ok {
		return refusedf("nobody to ask: without a terminal give --yes and --max")
	}
	fmt.Fprintf(a.err, "type the number of jobs to go on: ")
	line, err := a.readLine(ctx)
	if err != nil {
		return err
	}
	if line != strconv.Itoa(n) {
		return refusedf("not confirmed, nothing was changed")
	}
	return nil
}

// readLine reads a line of standard input, until ctx ends.
func (a *app) readLine(ctx context.Context) (string, error) {
	lines := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(a.in).ReadString('\n')
		lines <- strings.TrimSpace(line)
	}()
	select {
	case line := <-lines:
		return line, nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}
