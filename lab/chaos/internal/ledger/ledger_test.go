package ledger

import (
	"fmt"
	"sync"
	"testing"

	"github.com/errandhq/errand/lab/chaos/internal/server"
)

func TestWhatIsWrittenIsRead(t *testing.T) {
	servers, err := server.NewServers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { must(t, servers.Close()) })
	p, err := servers.Start(t.Context(), "ledger", server.NotDurable)
	if err != nil {
		t.Fatal(err)
	}
	dsn := p.URL("postgres")
	l, err := Create(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	w, err := Open(t.Context(), dsn, "w1")
	if err != nil {
		t.Fatal(err)
	}
	must(t, w.Acked(1, 2, 3))
	const runs = 200
	var all sync.WaitGroup
	for i := range runs { // so that they are written together
		all.Go(func() {
			must(t, w.Started(i, 1))
			must(t, w.Note(i, 1, fmt.Sprint("note ", i)))
			must(t, w.Effect(i, 2))
		})
	}
	all.Wait()
	acked, effects, err := l.Progress(t.Context())
	if err != nil || acked != 3 || effects != runs {
		t.Errorf("progress: got %d and %d, %v, want 3 and %d", acked, effects, err, runs)
	}
	must(t, w.Close())

	b, err := l.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(b.Acked) != 3 || b.Acked[2].IsZero() || len(b.Starts) != runs || len(b.Effects) != runs || len(b.Notes) != runs {
		t.Fatalf("got %d acked, %d starts, %d effects, %d notes", len(b.Acked), len(b.Starts), len(b.Effects), len(b.Notes))
	}
	for i, n := range b.Notes {
		if n.Text != fmt.Sprint("note ", n.Number) || n.Worker != "w1" || n.Attempt != 1 || i > 0 && n.At.Before(b.Notes[i-1].At) {
			t.Fatalf("note: got %+v", n)
		}
	}
	since, err := l.StartsSince(t.Context(), b.Starts[runs/2].At)
	if err != nil || len(since) == 0 || len(since) > runs/2+runs/4 && b.Starts[0].At != b.Starts[runs-1].At {
		t.Errorf("starts since the middle one: got %d, %v", len(since), err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}
