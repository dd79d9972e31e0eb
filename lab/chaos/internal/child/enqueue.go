package child

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/errandhq/errand/lab/chaos/internal/ledger"
	"github.com/errandhq/errand/lab/chaos/internal/peer"
	"github.com/errandhq/errand/lab/chaos/internal/seed"
)

const (
	// enqueueTimeout bounds one call.
	enqueueTimeout = 10 * time.Second
	// enqueuePause is between a call that failed and the next, and between looks at
	// how far the workers are.
	enqueuePause = 20 * time.Millisecond
)

// Refused begins the note of what an enqueuer was told when a call failed. The note is of the first
// job of the call, and for an attempt has how many there were.
const Refused = "refused: "

// InDoubt are the jobs of calls that failed: they may have been written.
func InDoubt(notes []ledger.Entry) map[int]bool {
	unknown := make(map[int]bool)
	for _, n := range notes {
		if strings.HasPrefix(n.Text, Refused) {
			for i := range n.Attempt {
				unknown[n.Number+i] = true
			}
		}
	}
	return unknown
}

// enqueue writes jobs and puts on record which were acknowledged. The numbers of a call
// that failed are not used again: whether they were written is unknown.
func enqueue(ctx context.Context, s *self) error {
	e := s.Enqueue
	record, err := ledger.Join(ctx, s.Ledger)
	if err != nil {
		return err
	}
	defer record.Close()
	draw := seed.Source(s.Seed, "enqueue", s.Name)
	next, acked, room := e.First, 0, 0
	begun := time.Now()
	for ctx.Err() == nil && (e.Jobs == 0 || acked < e.Jobs) {
		if e.Ahead > 0 && room <= 0 {
			if room = s.room(ctx, record); room <= 0 {
				time.Sleep(enqueuePause)
				continue
			}
		}
		s.awaitTurn(begun, next-e.First)
		n := 1 + draw.IntN(max(e.Batch, 1))
		if e.Jobs > 0 {
			n = min(n, e.Jobs-acked)
		}
		numbers := make([]int, n)
		for i := range numbers {
			numbers[i] = next + i
		}
		next += n
		if err := s.enqueueOnce(numbers); err != nil {
			fmt.Fprintln(os.Stderr, err)
			s.note(peer.Run{Number: numbers[0], Attempt: n}, Refused+err.Error())
			time.Sleep(enqueuePause)
			continue
		}
		exitOnError(s.ledger.Acked(numbers...))
		acked += n
		room -= n
	}
	return nil
}

// enqueueOnce makes one call. It outlasts SIGTERM: what it wrote must be known.
func (s *self) enqueueOnce(numbers []int) error {
	ctx, cancel := context.WithTimeout(context.Background(), enqueueTimeout)
	defer cancel()
	kind := cmp.Or(s.Enqueue.Kind, peer.Plain)
	if s.Enqueue.Later.Most > 0 {
		return s.enqueueLater(ctx, kind, numbers)
	}
	return s.peer.Enqueue(ctx, kind, numbers...)
}

// awaitTurn waits, where there is a rate, until so many have had their time. What is late is caught
// up with.
func (s *self) awaitTurn(begun time.Time, enqueued int) {
	if rate := s.Enqueue.Rate; rate > 0 {
		time.Sleep(time.Until(begun.Add(time.Duration(enqueued) * time.Second / time.Duration(rate))))
	}
}

// room is how many jobs may be enqueued until the workers are to be looked at again.
func (s *self) room(ctx context.Context, record *ledger.Ledger) int {
	acked, effects, err := record.Progress(ctx)
	if ctx.Err() == nil {
		exitOnError(err)
	}
	return s.Enqueue.Ahead - (acked - effects)
}
