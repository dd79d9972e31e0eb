package middleware_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/errandhq/errand/middleware"
	"github.com/errandhq/errand/queue"
)

// codecOrder is a typical document. Its Note is the marker that must be seen neither in a table nor
// in an error.
type codecOrder struct {
	ID       string
	Note     string
	Customer map[string]string
	Lines    []codecLine
}

type codecLine struct {
	SKU, Name            string
	Quantity, PriceCents int
	TaxRate              float64
	Warehouse            string
	Options              map[string]string
}

const codecMarker = "m4rk3r-of-the-payload"

var codecKind = queue.NewKind[codecOrder]("codec.order")

// newCodecOrder is an order of at least size bytes of JSON, another for each seed.
func newCodecOrder(size int, seed uint64) codecOrder {
	r := rand.New(rand.NewPCG(seed, 1))
	words := strings.Fields("steel garden lamp blue kitchen small chair travel cotton glass wooden desk outdoor light grey bottle")
	word := func() string { return words[r.IntN(len(words))] }
	order := codecOrder{
		ID:   fmt.Sprintf("%016x", r.Uint64()),
		Note: codecMarker,
		Customer: map[string]string{
			"name": "Maria Schneider", "email": fmt.Sprintf("m%d@example.com", r.Uint32()), "street": "Lindenstraße 17", "city": "Köln",
		},
	}
	for len(codecKind.New(order).Payload) < size {
		order.Lines = append(order.Lines, codecLine{
			SKU: fmt.Sprintf("%08X", r.Uint32()), Name: word() + " " + word() + " " + word(),
			Quantity: 1 + r.IntN(5), PriceCents: r.IntN(20_000), TaxRate: 0.19, Warehouse: word(),
			Options: map[string]string{"gift_wrap": fmt.Sprint(r.IntN(2) == 0), "engraving": word()},
		})
	}
	return order
}

// codecPair is the two ends of a codec, or of several.
type codecPair struct {
	name    string
	enqueue []queue.EnqueueMiddleware // outermost first
	handle  []queue.Middleware        // outermost first
}

// codecPairs are Compress, Encrypt and both, in the order that makes sense.
func codecPairs(t testing.TB) []codecPair {
	compress, encrypt := middleware.Compress{Min: 1}, newCodecEncrypt(t, "k1", "k1")
	return []codecPair{
		{"compress", []queue.EnqueueMiddleware{compress.Enqueuer}, []queue.Middleware{compress.Handler}},
		{"encrypt", []queue.EnqueueMiddleware{encrypt.Enqueuer}, []queue.Middleware{encrypt.Handler}},
		{
			"compress and encrypt",
			[]queue.EnqueueMiddleware{compress.Enqueuer, encrypt.Enqueuer},
			[]queue.Middleware{encrypt.Handler, compress.Handler},
		},
	}
}

// codecBackend is an Enqueuer that keeps what it is given, and fails with err.
type codecBackend struct {
	calls [][]*queue.Job
	err   error
}

func (b *codecBackend) Enqueue(_ context.Context, _ queue.DB, jobs ...*queue.Job) error {
	b.calls = append(b.calls, jobs)
	for i, job := range jobs {
		if err := job.Check(0); err != nil {
			return err
		}
		job.ID, job.Duplicate = int64(100+i), job.Key == "taken"
	}
	return b.err
}

// codecStored is the job as its worker gets it after these have encoded it.
func codecStored(t testing.TB, job *queue.Job, encode ...queue.EnqueueMiddleware) *queue.Job {
	t.Helper()
	b := new(codecBackend)
	if err := queue.ChainEnqueuer(b, encode...).Enqueue(t.Context(), nil, job); err != nil {
		t.Fatal(err)
	}
	stored := b.calls[0][0]
	if stored.Queue == "" {
		stored.Queue = queue.DefaultQueue
	}
	stored.Fence, stored.Worker, stored.Attempt, stored.MaxAttempts = 7, "tester", 1, 5
	return stored
}

// codecDecoded is the payload that reaches the handler behind these, or their error.
func codecDecoded(job *queue.Job, decode ...queue.Middleware) (payload json.RawMessage, err error) {
	h := queue.Chain(queue.HandlerFunc(func(_ context.Context, got *queue.Job) error {
		payload = got.Payload
		return nil
	}), decode...)
	err = h.HandleJob(context.Background(), job)
	return payload, err
}

// codecWantErr compares an error's text and what becomes of the job.
func codecWantErr(t *testing.T, err error, part string, action queue.OutcomeAction) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), part) {
		t.Errorf("error: got %v, want one that has %q", err, part)
		return
	}
	if strings.Contains(err.Error(), codecMarker) {
		t.Errorf("the error shows the payload: %v", err)
	}
	if o, _ := queue.OutcomeOf(context.Background(), &queue.Job{Attempt: 1, MaxAttempts: 5}, err); o.Action != action {
		t.Errorf("outcome of %v: got %v, want %v", err, o.Action, action)
	}
}
