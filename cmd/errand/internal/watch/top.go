package watch

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/errandhq/errand/backend/dburl"
	"github.com/errandhq/errand/cmd/errand/internal/cli"
	"github.com/errandhq/errand/cmd/errand/internal/queues"
	"github.com/errandhq/errand/cmd/errand/internal/workers"
	"github.com/errandhq/errand/internal/plain"
	"github.com/errandhq/errand/queue/driver"
)

func (a app) topCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "top",
		Short: "Show queues and workers on the whole terminal, until q is pressed",
		Long: `top shows the queues and the workers, and looks again after two seconds, or later
if the database takes long to answer. It only reads.`,
		Args: cobra.NoArgs,
		RunE: a.Watching(a.top),
	}
}

const (
	enterScreen = "\x1b[?1049h\x1b[?25l" // the alternate screen, without a cursor
	leaveScreen = "\x1b[?25h\x1b[?1049l"
	topPause    = 2 * time.Second
)

func (a app) top(ctx context.Context, d *dburl.Database, _ []string) error {
	out, isOut := cli.Terminal(a.Out)
	in, isIn := cli.Terminal(a.In)
	if !isOut || !isIn {
		return cli.Usagef("top needs a terminal: errand queues list and errand workers do without")
	}
	before, err := term.MakeRaw(in)
	if err != nil {
		return err
	}
	defer func() { _ = term.Restore(in, before) }()
	fmt.Fprint(a.Out, enterScreen)
	defer fmt.Fprint(a.Out, leaveScreen)
	quit := quitKey(a.In.(*os.File))
	for {
		began := time.Now()
		var text string
		err := a.Step(ctx, d, func(ctx context.Context) (err error) {
			text, err = screen(ctx, d)
			return err
		})
		if err != nil {
			return err
		}
		took := time.Since(began)
		columns, rows, err := term.GetSize(out)
		if err != nil || columns < 1 || rows < 1 {
			columns, rows = 80, 24 // a terminal that does not know its size
		}
		fmt.Fprint(a.Out, frame(text, columns, rows))
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-quit:
			return nil
		case <-time.After(max(topPause, 20*took)): // watching costs the database little
		}
	}
}

// quitKey returns a channel that is closed when q, Control-C or Control-D is pressed. In raw mode
// the terminal makes no signal of Control-C.
func quitKey(in *os.File) <-chan struct{} {
	quit := make(chan struct{})
	go func() {
		defer close(quit)
		var key [1]byte
		for {
			if _, err := in.Read(key[:]); err != nil || strings.ContainsRune("qQ\x03\x04", rune(key[0])) {
				return
			}
		}
	}()
	return quit
}

// screen returns the text of a frame.
func screen(ctx context.Context, d *dburl.Database) (string, error) {
	states, err := queues.States(ctx, d)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %s  q quits\n\n", plain.Line(d.Description), cli.TimeText(time.Now()))
	b.WriteString(queues.Table(states).Text())
	if _, ok := driver.As[driver.Fleet](d.Queue); ok {
		list, err := workers.List(ctx, d, 3)
		if err != nil {
			return "", err
		}
		b.WriteString("\n" + workers.Table(list).Text())
	}
	return b.String(), nil
}

// frame returns what draws text on a terminal of that size.
func frame(text string, columns, rows int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if hidden := len(lines) - rows; hidden > 0 {
		lines = append(lines[:rows-1], fmt.Sprintf("… %d more lines", hidden+1))
	}
	var b strings.Builder
	b.WriteString("\x1b[H")
	for i, line := range lines {
		if i > 0 {
			b.WriteString("\r\n")
		}
		b.WriteString(cli.CutLine(line, columns) + "\x1b[K")
	}
	b.WriteString("\x1b[J")
	return b.String()
}
