package child

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/errandhq/errand/lab/bench/internal/peer"
	"github.com/errandhq/errand/lab/internal/process"
)

// parts are what a child can do. A part prepares itself, calls begin, and then does what is
// measured. It ends when it is done, or when ctx ends.
var parts = map[string]func(ctx context.Context, s *self) (Figures, error){
	"cancel":    withPeer(cancel),
	"claims":    claims,
	"dashboard": dashboard,
	"enqueue":   withPeer(enqueue),
	"flow":      withPeer(flow),
	"gateway":   serveGateway,
	"ideal":     ideal,
	"fleet":     withPeer(fleet),
	"latency":   withPeer(latency),
	"singles":   withPeer(singles),
	"takes":     withPeer(takes),
	"transact":  withPeer(transact),
	"work":      work,
}

// withPeer returns a part that opens its system, and closes it at the end.
func withPeer(part func(ctx context.Context, s *self, p peer.Peer) (Figures, error)) func(context.Context, *self) (Figures, error) {
	return func(ctx context.Context, s *self) (f Figures, err error) {
		p, err := s.open(ctx, nil)
		if err != nil {
			return nil, err
		}
		defer closing(p, &err)
		return part(ctx, s, p)
	}
}

// self is a child, as it sees itself.
type self struct {
	Spec
	input   *bufio.Reader
	output  io.Writer
	saying  sync.Mutex
	handled atomic.Int64
	sum     atomic.Int64
	stop    context.CancelFunc // ends the part
	cpu     time.Duration      // processor time that was used before begin
	written int64              // bytes written to disk before begin
}

// Run does a child's part. spec is its Spec in JSON.
func Run(spec string) error {
	s := &self{input: bufio.NewReader(os.Stdin), output: os.Stdout}
	return s.run(spec)
}

func (s *self) run(spec string) error {
	if err := json.Unmarshal([]byte(spec), &s.Spec); err != nil {
		return err
	}
	part, ok := parts[s.Part]
	if !ok {
		return fmt.Errorf("no part %q", s.Part)
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	s.stop = stop
	figures, err := part(ctx, s)
	if err != nil {
		return err
	}
	return s.say("result", Result{
		Handled: s.handled.Load(),
		Sum:     s.sum.Load(),
		CPU:     (process.CPU() - s.cpu).Seconds(),
		PeakRSS: process.PeakRSS(),
		Written: process.Written() - s.written,
		Figures: figures,
	})
}

// begin tells the parent that the child is ready, and returns when the parent has sent "go". From
// then on the parent gets the counts, and the end of the input ends the part's context.
func (s *self) begin() error {
	if err := s.say("ready", nil); err != nil {
		return err
	}
	if _, err := s.input.ReadString('\n'); err != nil {
		return fmt.Errorf("told to end before it began: %w", err)
	}
	s.cpu, s.written = process.CPU(), process.Written()
	go func() {
		_, _ = io.Copy(io.Discard, s.input) // only the end matters
		s.stop()
	}()
	go s.tellCounts()
	return nil
}

// tellCounts tells the parent how many jobs have been handled, whenever that has changed, until the
// process ends.
func (s *self) tellCounts() {
	told := int64(0)
	for range time.Tick(2 * time.Millisecond) {
		n := s.handled.Load()
		if n == told {
			continue
		}
		if s.say("count", n) != nil {
			return // the parent has ended, so the input ends, too
		}
		told = n
	}
}

// say prints a word, and a value unless it is nil.
func (s *self) say(word string, value any) error {
	line := []byte(word)
	if value != nil {
		text, err := json.Marshal(value)
		if err != nil {
			return err
		}
		line = append(append(line, ' '), text...)
	}
	s.saying.Lock()
	defer s.saying.Unlock()
	_, err := s.output.Write(append(line, '\n'))
	return err
}

// count counts a job that has been handled.
func (s *self) count(number int) {
	s.sum.Add(int64(number))
	s.handled.Add(1)
}

// open opens the system that the Spec names.
func (s *self) open(ctx context.Context, onClaim func(time.Duration)) (peer.Peer, error) {
	return peer.Open(ctx, peer.Config{
		System:      s.System,
		DSN:         s.DSN,
		Gateway:     s.Gateway,
		Workers:     s.Workers,
		Redis:       s.Redis,
		Concurrency: s.Concurrency,
		OnClaim:     onClaim,
	})
}

// closing closes what a part has opened, and adds an error of Close to the part's error.
func closing(c io.Closer, err *error) { *err = errors.Join(*err, c.Close()) }
