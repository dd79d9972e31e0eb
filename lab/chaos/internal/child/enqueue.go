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
	// enqueuePause is the pause after a failed call, and between two looks at the workers'
	// progress.
	enqueuePause = 20 * time.Millisecond
)

// Refused begins the note of a failed call. The note has the number of the call's first job, and
// for an attempt how many jobs the call had.
const Refused = "refused: "

// InDoubt returns the jobs of failed calls, which may have been written.
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

// enqueue writes jobs and records the acknowledged ones. It does not use the numbers of a failed
// call again, because nobody knows whether its jobs were written.
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

// enqueueOnce makes one call. SIGTERM does not stop it, because it must be known what it wrote.
func (s *self) enqueueOnce(numbers []int) error {
	ctx, cancel := context.WithTimeout(context.Background(), enqueueTimeout)
	defer cancel()
	kind := cmp.Or(s.Enqueue.Kind, peer.Plain)
	if s.Enqueue.Later.Most > 0 {
		return s.enqueueLater(ctx, kind, numbers)
	}
	return s.peer.Enqueue(ctx, kind, numbers...)
}

// awaitTurn waits until Rate allows another job. It catches up after a delay.
func (s *self) awaitTurn(begun time.Time, enqueued int) {
	if rate := s.Enqueue.Rate; rate > 0 {
		time.Sleep(time.Until(begun.Add(time.Duration(enqueued) * time.Second / time.Duration(rate))))
	}
}

// room returns how many jobs the enqueuer may write before it looks at the workers' progress again.
func (s *self) room(ctx context.Context, record *ledger.Ledger) int {
	acked, effects, err := record.Progress(ctx)
	if ctx.Err() == nil {
		exitOnError(err)
	}
	return s.Enqueue.Ahead - (acked - effects)
}
