package postgrestest

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"time"
)

// superviseScript is the part of a POSIX shell script that runs the server, "$@". It ends when the
// server has ended, by itself or because file descriptor 3 reached its end. Only our process holds
// the other end of that, so the server ends when our process does, even by kill -9. The script
// repeats the signal, which shuts Postgres down at once, because a program that has not started yet
// loses it.
const superviseScript = `
"$@" </dev/null 3<&- &
server=$!
{
	while read -r _; do :; done
	while kill -QUIT $server; do sleep 0.1; done
} <&3 2>/dev/null &
wait $server
kill $!
`

const (
	startTimeout = 2 * time.Minute  // for initdb and recovery, on a busy machine
	stopTimeout  = 30 * time.Second // for an immediate shutdown and rm
)

// process is a server under superviseScript.
type process struct {
	stdin io.Closer     // closing it ends the server
	done  chan struct{} // closed when the server has ended and is tidied up
	log   func() string // the end of what it wrote
}

// ready waits until the server accepts connections to base.
func (p *process) ready(ctx context.Context, base *url.URL) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ping(ctx, base)
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-p.done:
			return fmt.Errorf("the server ended, saying:\n%s", p.log())
		case <-ctx.Done():
			return fmt.Errorf("the server cannot be connected to: %w; it said:\n%s", err, p.log())
		}
	}
}

// stop ends the server and waits until it has ended.
func (p *process) stop() error {
	p.stdin.Close()
	select {
	case <-p.done:
		return nil
	case <-time.After(stopTimeout):
		return fmt.Errorf("the server has not ended within %v", stopTimeout)
	}
}
