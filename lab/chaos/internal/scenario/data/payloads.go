package data

import (
	"context"
	"fmt"
	"strings"

	"github.com/errandhq/errand/lab/chaos/internal/child"
	"github.com/errandhq/errand/lab/chaos/internal/harness"
	"github.com/errandhq/errand/lab/chaos/internal/ledger"
	"github.com/errandhq/errand/lab/chaos/internal/payload"
	"github.com/errandhq/errand/lab/chaos/internal/peer"
	"github.com/errandhq/errand/lab/chaos/internal/scenario"
)

var payloads = scenario.Scenario{
	Number: 8,
	Name:   "payloads",
	What:   "fuzzed payloads: NUL, 2^53+1, 1e400, duplicate keys, depth 10,000, 300 MB, and thousands that are drawn",
	Run:    fuzzPayloads,
}

// payloadEnqueuer is a process that enqueues payloads.
type payloadEnqueuer struct {
	name     string
	settings []string
	fuzz     child.Fuzz
}

func waysOfPayloads(h *harness.Harness) []payloadEnqueuer {
	each := harness.Size(h, 6600, 480)
	ways := []payloadEnqueuer{
		{"pgx", nil, child.Fuzz{Driver: "pgx", Jobs: each}},
		{"pgx-simple", []string{"default_query_exec_mode", "simple_protocol"}, child.Fuzz{Driver: "pgx", Jobs: each}},
		{"pq", nil, child.Fuzz{Driver: "postgres", Jobs: each}},
		{"large", nil, child.Fuzz{Driver: "pgx", Large: true, Jobs: harness.Size(h, payload.LargeOnes, payload.Moderate)}},
	}
	for i := range ways {
		ways[i].fuzz.First = i * 1_000_000
	}
	return ways
}

func fuzzPayloads(ctx context.Context, h *harness.Harness) error {
	var readers, enqueuers []*child.Process
	for _, driver := range []string{"pgx", "postgres"} {
		p, err := h.Start(child.Spec{
			Part: "read", Name: "reads-" + driver, Fuzz: child.Fuzz{Driver: driver},
			Work: child.Work{Worker: peer.Worker{Concurrency: 4}},
		})
		if err != nil {
			return err
		}
		readers = append(readers, p)
	}
	ways := waysOfPayloads(h)
	for _, w := range ways {
		p, err := h.Start(child.Spec{Part: "fuzz", Name: w.name, DSN: h.DSN(append(w.settings, "application_name", w.name)...), Fuzz: w.fuzz})
		if err != nil {
			return err
		}
		enqueuers = append(enqueuers, p)
	}
	if err := h.Drain(ctx, enqueuers...); err != nil {
		return err
	}
	for _, p := range readers {
		if err := scenario.Stop(p); err != nil {
			return err
		}
	}
	f, book, err := h.Audit(ctx)
	if err != nil {
		return err
	}
	h.Row.Check(f.Dead == 0 && f.Dup == 0, "jobs that were not read at the first attempt: 0", "%d dead, %d started again", f.Dead, f.Dup)
	jobs, err := h.Peer.Jobs(ctx, "")
	if err != nil {
		return err
	}
	h.Row.Check(len(jobs) == f.Acked, "rows of calls that were refused: 0", "%d rows, %d acknowledged", len(jobs), f.Acked)
	checkPayloads(h, ways, book)
	return nil
}

// checkPayloads compares the payloads that came back, or were refused, with those that were sent.
func checkPayloads(h *harness.Harness, ways []payloadEnqueuer, book ledger.Book) {
	back, refusal := make(map[int]string), make(map[int]string)
	var strange []string
	batches := 0
	for _, n := range book.Notes {
		switch {
		case strings.HasPrefix(n.Text, child.Back):
			back[n.Number] = strings.TrimPrefix(n.Text, child.Back)
		case n.Text != child.Refusal+"Payload":
			strange = append(strange, fmt.Sprintf("%d by %s: %s", n.Number, n.Worker, n.Text))
		case n.Attempt == 1:
			refusal[n.Number] = n.Text
		default:
			batches++
		}
	}
	var wrong []string
	sent, kept, refused := 0, 0, 0
	for _, w := range ways {
		for number := w.fuzz.First; number < w.fuzz.First+w.fuzz.Jobs; number++ {
			_, acked := book.Acked[number]
			sent++
			if acked {
				kept++
			} else if refusal[number] != "" {
				refused++
			}
			p := w.fuzz.Payload(h.Seed, number)
			if why := wrongFate(p, acked, refusal[number] != "", back[number]); why != "" {
				wrong = append(wrong, fmt.Sprintf("%d by %s, %s: %s", number-w.fuzz.First, w.name, p.Name, why))
			}
		}
	}
	h.Row.Check(len(strange) == 0, "errors that are no InvalidError of the Payload: 0", "%s", harness.FirstFew(strange))
	h.Row.Check(len(wrong) == 0, "payloads neither kept faithfully nor refused as documented: 0", "%s of %d", harness.FirstFew(wrong), sent)
	enough := harness.Size(h, 1000, 100)
	h.Row.Check(kept > enough && refused > enough && batches > enough/4, "some of each",
		"%d kept, %d refused, and %d calls with good ones among them", kept, refused, batches)
}

// wrongFate returns what is wrong with the fate of a payload, or "".
func wrongFate(p payload.Payload, acked, refused bool, back string) string {
	switch {
	case acked && p.Fate == payload.Refused:
		return "kept"
	case !acked && p.Fate == payload.Kept:
		return "not kept"
	case !acked && !refused:
		return "neither kept nor refused"
	case !acked:
		return ""
	}
	digest, ok := payload.Value(p.Text)
	switch {
	case !ok:
		return "kept, and is no value"
	case back != digest:
		return "came back as another value"
	}
	return ""
}
