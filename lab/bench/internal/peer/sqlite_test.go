package peer

import (
	"context"
	"path/filepath"
	"slices"
	"testing"

	"github.com/errandhq/errand/backend/sqlite"
)

func TestProgram(t *testing.T) {
	for _, c := range []struct {
		system, part string
		want         []string
	}{
		{"errand", "work", nil},
		{"errand-sqlite", "work", nil},
		{"graphile-best", "work", []string{"node", filepath.Join("dir", "graphile.js")}},
		{"graphile-best", "enqueue", nil},
		{"bullmq-cluster", "enqueue", []string{"node", filepath.Join("dir", "bullmq.js")}},
	} {
		if got := (Config{System: c.system, Node: "dir"}).Program(c.part); !slices.Equal(got, c.want) {
			t.Errorf("%s of %s: got %v, want %v", c.part, c.system, got, c.want)
		}
	}
}

// TestQueuesInAFile: each job, enqueued in one call or alone, is handled once and then settled.
func TestQueuesInAFile(t *testing.T) {
	for _, name := range []string{"errand-sqlite", "floor-sqlite", "river-sqlite", "goqite"} {
		t.Run(name, func(t *testing.T) {
			p := openInFile(t, name)
			const jobs = 2*insertRows + 3 // for the floor's two inserts
			if err := p.Enqueue(t.Context(), 0, jobs-1); err != nil {
				t.Fatal(err)
			}
			if err := p.EnqueueOne(t.Context(), jobs-1); err != nil {
				t.Fatal(err)
			}
			census(t, p, Census{Unsettled: jobs})
			if got := numbersOf(t, p, jobs); got != jobs*(jobs-1)/2 {
				t.Errorf("sum of the numbers handled: got %d, want %d", got, jobs*(jobs-1)/2)
			}
			want := Census{}
			if Named(name).Keeps {
				want.Completed = jobs
			}
			census(t, p, want)
		})
	}
}

func openInFile(t *testing.T, system string) Peer {
	p, err := Open(t.Context(), Config{System: system, DSN: sqlite.DSN(filepath.Join(t.TempDir(), "test.db"))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := p.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	return p
}

// numbersOf works until n jobs have been handled, and returns the sum of their numbers.
func numbersOf(t *testing.T, p Peer, n int) (sum int) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	numbers := make(chan int, n)
	worked := make(chan error, 1)
	go func() { worked <- p.Work(ctx, func(number int) { numbers <- number }) }()
	for range n {
		select {
		case number := <-numbers:
			sum += number
		case err := <-worked:
			t.Fatalf("Work has ended: %v", err)
		}
	}
	stop()
	if err := <-worked; err != nil {
		t.Fatal(err)
	}
	if len(numbers) > 0 {
		t.Errorf("%d jobs handled besides", len(numbers))
	}
	return sum
}

func census(t *testing.T, p Peer, want Census) {
	t.Helper()
	got, err := p.Census(t.Context())
	if err != nil || got != want {
		t.Fatalf("census: got %+v, %v, want %+v", got, err, want)
	}
	if unsettled, err := p.Unsettled(t.Context()); err != nil || unsettled != (want.Unsettled > 0) {
		t.Errorf("unsettled: got %v, %v, want %v", unsettled, err, want.Unsettled > 0)
	}
}
