package main

import (
	"bufio"
	"bytes"
	"context"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/dburl"
	"github.com/errandhq/errand/cmd/errand/internal/cli"
	"github.com/errandhq/errand/cmd/errand/internal/clitest"
	"github.com/errandhq/errand/queue"
)

// TestTail: tail as a process prints what happens while it runs, and exits with 130 when it is
// interrupted.
func TestTail(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("has no signals")
	}
	for _, b := range clitest.Backends {
		t.Run(b.Name, func(t *testing.T) {
			t.Parallel()
			url := b.URL(t, t.TempDir())
			d, err := dburl.Open(url, dburl.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			if err := d.Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			cmd := exec.CommandContext(ctx, "errand", "tail", "--every", "100ms", "-o", "jsonl", "--url", url)
			var problems bytes.Buffer
			cmd.Stderr = &problems
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			done := make(chan struct{})
			go func() { // until tail has looked once, a job is not new
				defer close(done)
				for ctx.Err() == nil {
					if err := d.Queue.Enqueue(ctx, nil, &queue.Job{Kind: "kind"}); err != nil {
						return
					}
					time.Sleep(100 * time.Millisecond)
				}
			}()
			lines := bufio.NewScanner(out)
			if !lines.Scan() || !strings.Contains(lines.Text(), `"what":"enqueued"`) {
				t.Errorf("printed %q, want a job that was enqueued; %s", lines.Text(), &problems)
			}
			if err := cmd.Process.Signal(os.Interrupt); err != nil {
				t.Error(err)
			}
			for lines.Scan() { // to the end, so that Wait may close the pipe
			}
			_ = cmd.Wait()
			cancel()
			<-done
			if code := cmd.ProcessState.ExitCode(); code != cli.ExitInterrupted || !strings.Contains(problems.String(), "errand: interrupted") {
				t.Errorf("exit code %d, want %d: %s", code, cli.ExitInterrupted, &problems)
			}
		})
	}
}

// TestCompletionTime: completion of names ends after its own time where the server says nothing,
// whatever the time-out of the command, and without an error.
func TestCompletionTime(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	var out bytes.Buffer
	database := "postgres://shop@" + silent.Addr().String() + "/shop?sslmode=disable"
	a := &cli.App{Out: &out, Err: &out, Getenv: clitest.Env(database), CompletionTime: time.Second}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	code := run(ctx, a, []string{"__complete", "--timeout", "1h", "queues", "pause", ""})
	if ctx.Err() != nil {
		t.Errorf("it did not end in a minute, want %v", a.CompletionTime)
	}
	if code != cli.ExitDone || !strings.HasPrefix(out.String(), ":4\n") {
		t.Errorf("exit code %d, printed %q", code, &out)
	}
}
