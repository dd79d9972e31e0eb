package jobs

import (
	"bufio"
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/errandhq/errand/cmd/errand/internal/cli"
	"github.com/errandhq/errand/internal/plain"
	"github.com/errandhq/errand/queue"
)

// examples is how many of the chosen jobs are shown.
const examples = 10

// confirm shows some of the n chosen jobs, and asks for n.
func (a app) confirm(ctx context.Context, op *operation, s selection, shown []queue.Record, n int) error {
	if err := a.NoteTable(jobTable(shown, false)); err != nil {
		return err
	}
	if n > len(shown) {
		fmt.Fprintf(a.Err, "and %d more\n", n-len(shown))
	}
	fmt.Fprintf(a.Err, "%s: %s with %s\n", op.name, cli.CountText(n, "job"), plain.Line(s.text()))
	if s.yes || s.dryRun {
		return nil
	}
	if _, ok := cli.Terminal(a.In); !ok {
		return cli.Refusedf("cannot ask: without a terminal give --yes and --max")
	}
	fmt.Fprintf(a.Err, "type the number of jobs to go on: ")
	line, err := a.readLine(ctx)
	if err != nil {
		return err
	}
	if line != strconv.Itoa(n) {
		return cli.Refusedf("not confirmed, nothing was changed")
	}
	return nil
}

// readLine reads a line of standard input, until ctx ends.
func (a app) readLine(ctx context.Context) (string, error) {
	lines := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(a.In).ReadString('\n')
		lines <- strings.TrimSpace(line)
	}()
	select {
	case line := <-lines:
		return line, nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}
