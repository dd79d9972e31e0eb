package middleware_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/middleware"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/queuetest"
)

func TestCodecsRoundTrip(t *testing.T) {
	for _, pair := range codecPairs(t) {
		for _, size := range []int{1_000, 5_000} {
			t.Run(fmt.Sprintf("%s %d", pair.name, size), func(t *testing.T) {
				q := queuetest.New(queuetest.Options{})
				order := newCodecOrder(size, 1)
				job := codecKind.New(order)
				job.Headers = map[string]string{"trace": "1"}
				if err := queue.ChainEnqueuer(q, pair.enqueue...).Enqueue(t.Context(), nil, job); err != nil {
					t.Fatal(err)
				}
				r, _, _ := q.Job(t.Context(), job.ID)
				if strings.Contains(string(r.Payload), codecMarker) || r.Headers[middleware.EncodingHeader] == "" {
					t.Errorf("stored: got payload %.60s and headers %v, want them encoded", r.Payload, r.Headers)
				}
				mux, ran := queue.NewMux(), false
				codecKind.Handle(mux, func(_ context.Context, got *queue.Job, o codecOrder) error {
					ran = true
					if !reflect.DeepEqual(o, order) || string(got.Payload) != string(job.Payload) {
						t.Errorf("payload: got %s, want %s", got.Payload, job.Payload)
					}
					if !reflect.DeepEqual(got.Headers, job.Headers) || got.ID != job.ID {
						t.Errorf("job: got %d with headers %v, want %d with %v", got.ID, got.Headers, job.ID, job.Headers)
					}
					return nil
				})
				if _, err := q.Drain(t.Context(), queue.Chain(mux, pair.handle...)); err != nil || !ran {
					t.Errorf("ran: got %v, error %v, want true", ran, err)
				}
			})
		}
	}
}

// What a payload of nil means is null.
func TestCodecsNilPayload(t *testing.T) {
	for _, pair := range codecPairs(t) {
		stored := codecStored(t, &queue.Job{Kind: "k"}, pair.enqueue...)
		if stored.Payload == nil {
			stored.Payload = json.RawMessage("null") // as a backend returns it
		}
		if got, err := codecDecoded(stored, pair.handle...); err != nil || string(got) != "null" {
			t.Errorf("%s: got %s, error %v, want null", pair.name, got, err)
		}
	}
}

func TestCodecsOnPostgres(t *testing.T) {
	db := postgrestest.Open(t)
	q, err := postgres.New(db, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	compress, encrypt := middleware.Compress{Min: 1}, newCodecEncrypt(t, "k1", "k1")
	right := queue.ChainEnqueuer(q, compress.Enqueuer, encrypt.Enqueuer)
	wrong := queue.ChainEnqueuer(q, encrypt.Enqueuer, compress.Enqueuer) // which finds nothing to compress
	a, b := codecKind.New(newCodecOrder(3000, 1)), codecKind.New(newCodecOrder(3000, 2))
	want := map[string]json.RawMessage{"gzip, aes-gcm;key=k1": a.Payload, "aes-gcm;key=k1": b.Payload}
	if err := errors.Join(right.Enqueue(t.Context(), nil, a), wrong.Enqueue(t.Context(), nil, b)); err != nil {
		t.Fatal(err)
	}
	jobs, err := q.Claim(t.Context(), queue.ClaimRequest{Queues: []string{queue.DefaultQueue}, Limit: 9, Lease: time.Minute, Worker: "tester"})
	if err != nil || len(jobs) != 2 {
		t.Fatalf("claimed: got %d jobs, error %v, want 2", len(jobs), err)
	}
	for _, job := range jobs {
		encoding := job.Headers[middleware.EncodingHeader]
		if strings.Contains(string(job.Payload), codecMarker) || want[encoding] == nil {
			t.Errorf("stored: got payload %.60s as %q", job.Payload, encoding)
		}
		if got, err := codecDecoded(job, encrypt.Handler, compress.Handler); err != nil || string(got) != string(want[encoding]) {
			t.Errorf("decoded %q: got %s, error %v, want %s", encoding, got, err, want[encoding])
		}
		_, err := codecDecoded(job, compress.Handler, encrypt.Handler)
		codecWantErr(t, err, "Encrypt.Handler has to stand outside Compress.Handler", queue.Retry)
	}
}

func TestCodecsMisplaced(t *testing.T) {
	compress, encrypt := middleware.Compress{}, newCodecEncrypt(t, "k1", "k1")
	for _, tt := range []struct {
		encoding string
		handler  queue.Middleware
		want     string
	}{
		{"aes-gcm;key=k1", compress.Handler, `"aes-gcm;key=k1": Encrypt.Handler has to stand outside Compress.Handler`},
		{"gzip, br", compress.Handler, `"br": the middleware that decodes it has to stand outside Compress.Handler`},
		{"gzip;level=9", compress.Handler, `"gzip;level=9"`},
		{"gzip,gzip", compress.Handler, `"gzip,gzip"`},
		{"gzip, ", compress.Handler, `""`},
		{"aes-gcm;key=k1, gzip", encrypt.Handler, `"gzip": Compress.Handler has to stand outside Encrypt.Handler`},
		{"aes-gcm;key=k1, br", encrypt.Handler, `"br": the middleware that decodes it has to stand outside Encrypt.Handler`},
	} {
		job := &queue.Job{Kind: "k", Payload: json.RawMessage(`"AAAA"`), Headers: map[string]string{middleware.EncodingHeader: tt.encoding}}
		_, err := codecDecoded(job, tt.handler)
		codecWantErr(t, err, tt.want, queue.Retry)
	}
}

func TestCodecsLeaveCallersJobs(t *testing.T) {
	for _, pair := range codecPairs(t) {
		for _, fails := range []error{nil, errors.New("connection refused")} {
			jobs := []*queue.Job{codecKind.New(newCodecOrder(2000, 1)), {Kind: "k", Key: "taken", Headers: map[string]string{"trace": "1"}}}
			want := []queue.Job{*jobs[0], *jobs[1]}
			want[1].Headers = map[string]string{"trace": "1"}
			payload := string(jobs[0].Payload)
			if fails == nil {
				want[0].ID, want[1].ID, want[1].Duplicate = 100, 101, true
			}
			b := &codecBackend{err: fails}
			err := queue.ChainEnqueuer(b, pair.enqueue...).Enqueue(t.Context(), nil, jobs...)
			if !errors.Is(err, fails) {
				t.Errorf("%s: got error %v, want %v", pair.name, err, fails)
			}
			if len(b.calls) != 1 || len(b.calls[0]) != 2 {
				t.Errorf("%s: got calls %v, want one with two jobs", pair.name, b.calls)
			}
			if got := []queue.Job{*jobs[0], *jobs[1]}; !reflect.DeepEqual(got, want) || string(jobs[0].Payload) != payload {
				t.Errorf("%s, failing with %v: got jobs %+v, want %+v", pair.name, fails, got, want)
			}
		}
	}
}

// The other end: the job that the worker holds is not changed either.
func TestCodecsLeaveHeldJob(t *testing.T) {
	for _, pair := range codecPairs(t) {
		job := codecStored(t, codecKind.New(newCodecOrder(2000, 1)), pair.enqueue...)
		before, headers, payload := *job, fmt.Sprint(job.Headers), string(job.Payload)
		if _, err := codecDecoded(job, pair.handle...); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(*job, before) || fmt.Sprint(job.Headers) != headers || string(job.Payload) != payload {
			t.Errorf("%s: got %+v, want %+v", pair.name, *job, before)
		}
	}
}

func TestCodecsDuplicate(t *testing.T) {
	for _, pair := range codecPairs(t) {
		e := queue.ChainEnqueuer(queuetest.New(queuetest.Options{}), pair.enqueue...)
		first, second := codecKind.New(newCodecOrder(1, 1)), codecKind.New(newCodecOrder(1, 2))
		first.Key, second.Key = "order:1", "order:1"
		if err := e.Enqueue(t.Context(), nil, first, second); err != nil {
			t.Fatal(err)
		}
		if first.Duplicate || !second.Duplicate || first.ID == 0 || second.ID != first.ID {
			t.Errorf("%s: got %d, duplicate %v, and %d, duplicate %v", pair.name, first.ID, first.Duplicate, second.ID, second.Duplicate)
		}
	}
}

// What the backend has to refuse reaches it as it is, in the one call.
func TestCodecsPassOnWhatIsBad(t *testing.T) {
	good := codecKind.New(newCodecOrder(2000, 1))
	for name, bad := range map[string]*queue.Job{
		"nil":              nil,
		"not marshalled":   queue.NewKind[func()]("codec.func").New(nil),
		"not JSON":         {Kind: "k", Payload: json.RawMessage(`{"a":`)},
		"NUL in a string":  {Kind: "k", Payload: json.RawMessage(`"\u0000"`)},
		"without a kind":   {Payload: json.RawMessage(`1`)},
		"empty, not nil":   {Kind: "k", Payload: json.RawMessage{}},
		"delay below zero": {Kind: "k", Delay: -1},
	} {
		for _, pair := range codecPairs(t) {
			b := new(codecBackend)
			got := queue.ChainEnqueuer(b, pair.enqueue...).Enqueue(t.Context(), nil, good, bad)
			want := bad.Check(0)
			var invalid *queue.InvalidError
			if !errors.As(got, &invalid) || got.Error() != want.Error() {
				t.Errorf("%s, %s: got %v, want %v", pair.name, name, got, want)
			}
			if len(b.calls) != 1 || b.calls[0][1] != bad {
				t.Errorf("%s, %s: got calls %v, want one with that very job", pair.name, name, b.calls)
			}
		}
	}
}

func TestCodecsEmptyBatch(t *testing.T) {
	for _, pair := range codecPairs(t) {
		b := new(codecBackend)
		if err := queue.ChainEnqueuer(b, pair.enqueue...).Enqueue(t.Context(), nil); err != nil || len(b.calls) != 1 || len(b.calls[0]) != 0 {
			t.Errorf("%s: got error %v and calls %v, want one without jobs", pair.name, err, b.calls)
		}
	}
}

// A header that says what is not so, as one copied from another job does.
func TestCodecsForeignHeader(t *testing.T) {
	encrypt := newCodecEncrypt(t, "k1", "k1")
	for _, tt := range []struct {
		name, encoding string
		enqueue        queue.EnqueueMiddleware
		want           string
	}{
		{"compress", "br", middleware.Compress{Min: 1}.Enqueuer, "not a JSON string of base64"},
		{"encrypt", "br", encrypt.Enqueuer, "not a JSON string of base64"},
		{"encrypt twice", "aes-gcm;key=k0", encrypt.Enqueuer, "already encrypted"},
	} {
		b, job := new(codecBackend), codecKind.New(newCodecOrder(2000, 1))
		job.Headers = map[string]string{middleware.EncodingHeader: tt.encoding}
		err := queue.ChainEnqueuer(b, tt.enqueue).Enqueue(t.Context(), nil, &queue.Job{Kind: "k"}, job)
		var invalid *queue.InvalidError
		if !errors.As(err, &invalid) || len(b.calls) != 0 {
			t.Errorf("%s: got %v after %d calls, want an InvalidError and none", tt.name, err, len(b.calls))
		}
		codecWantErr(t, err, tt.want, queue.Retry)
		codecWantErr(t, err, "job 2 of 2", queue.Retry)
	}
}

// A backend may return a payload in another form of the same JSON value.
func TestCodecsOtherFormOfString(t *testing.T) {
	for _, pair := range codecPairs(t) {
		job := codecKind.New(newCodecOrder(5000, 1))
		stored := codecStored(t, job, pair.enqueue...)
		escaped := strings.NewReplacer("/", `\/`, "+", `\u002b`, "=", `\u003d`).Replace(string(stored.Payload))
		if escaped == string(stored.Payload) {
			t.Fatalf("%s: nothing to escape", pair.name)
		}
		for _, form := range []string{escaped, " " + string(stored.Payload) + "\n"} {
			stored.Payload = json.RawMessage(form)
			if got, err := codecDecoded(stored, pair.handle...); err != nil || string(got) != string(job.Payload) {
				t.Errorf("%s: got %s, error %v, want %s", pair.name, got, err, job.Payload)
			}
		}
	}
}

// The copy that the handler gets settles the job.
func TestCodecsSettle(t *testing.T) {
	for _, pair := range codecPairs(t) {
		q := queuetest.New(queuetest.Options{})
		job := codecKind.New(newCodecOrder(2000, 1))
		if err := queue.ChainEnqueuer(q, pair.enqueue...).Enqueue(t.Context(), nil, job); err != nil {
			t.Fatal(err)
		}
		settle := queue.HandlerFunc(func(ctx context.Context, copied *queue.Job) error {
			tx, err := q.Begin(ctx)
			if err != nil {
				return err
			}
			if lost, err := q.Settle(ctx, tx, queue.Outcome{Job: copied, Action: queue.Done}); err != nil || len(lost) > 0 {
				return fmt.Errorf("lost %v: %w", lost, err)
			}
			return errors.Join(tx.Commit(), queue.ErrSettled)
		})
		if _, err := q.Drain(t.Context(), queue.Chain(settle, pair.handle...)); err != nil {
			t.Fatal(err)
		}
		if r, _, _ := q.Job(t.Context(), job.ID); r.Status != queue.StatusCompleted {
			t.Errorf("%s: got %s (%s), want completed", pair.name, r.Status, r.LastError)
		}
	}
}

func TestCodecsConcurrently(t *testing.T) {
	for _, pair := range codecPairs(t) {
		b := queue.EnqueuerFunc(func(_ context.Context, _ queue.DB, jobs ...*queue.Job) error { jobs[0].ID = 1; return nil })
		var stored sync.Map // by the caller's job
		spy := func(next queue.Enqueuer) queue.Enqueuer {
			return queue.EnqueuerFunc(func(ctx context.Context, db queue.DB, jobs ...*queue.Job) error {
				stored.Store(jobs[0].Key, jobs[0])
				return next.Enqueue(ctx, db, jobs...)
			})
		}
		e := queue.ChainEnqueuer(b, slices.Concat(pair.enqueue, []queue.EnqueueMiddleware{spy})...)
		h := queue.Chain(queue.HandlerFunc(func(_ context.Context, job *queue.Job) error {
			return fmt.Errorf("%s", job.Payload)
		}), pair.handle...)
		var all sync.WaitGroup
		for n := range 8 {
			all.Go(func() {
				for i := range 20 {
					job := codecKind.New(newCodecOrder(100*i, uint64(n)))
					job.Queue, job.Key = queue.DefaultQueue, fmt.Sprint(n, "/", i)
					if err := e.Enqueue(t.Context(), nil, job); err != nil {
						t.Error(err)
						return
					}
					got, _ := stored.Load(job.Key)
					if err := h.HandleJob(t.Context(), got.(*queue.Job)); err.Error() != string(job.Payload) {
						t.Errorf("%s: got %v, want %s", pair.name, err, job.Payload)
					}
				}
			})
		}
		all.Wait()
	}
}

// Both together: compress first and encrypt then, and the other way round back.
func Example_codecs() {
	ctx := context.Background()
	encrypt, err := middleware.NewEncrypt(middleware.EncryptOptions{
		Keys:    middleware.Keys{"2026-07": []byte("0123456789abcdef0123456789abcdef")}, // from where secrets are kept
		Current: "2026-07",
	})
	if err != nil {
		fmt.Println(err)
	}
	compress := middleware.Compress{}

	q := queuetest.New(queuetest.Options{}) // in a program: postgres.New
	enqueuer := queue.ChainEnqueuer(q, compress.Enqueuer, encrypt.Enqueuer)
	job := &queue.Job{Kind: "order.export", Payload: json.RawMessage(`"` + strings.Repeat("very long ", 200) + `"`)}
	if err := enqueuer.Enqueue(ctx, nil, job); err != nil {
		fmt.Println(err)
	}
	stored, _, _ := q.Job(ctx, job.ID)
	fmt.Println(stored.Headers[middleware.EncodingHeader])

	mux := queue.NewMux()
	mux.Handle("order.export", queue.HandlerFunc(func(ctx context.Context, job *queue.Job) error {
		fmt.Printf("%d bytes, %.20s…\n", len(job.Payload), job.Payload)
		return nil
	}))
	if _, err := q.Drain(ctx, queue.Chain(mux, encrypt.Handler, compress.Handler)); err != nil {
		fmt.Println(err)
	}
	// Output:
	// gzip, aes-gcm;key=2026-07
	// 2002 bytes, "very long very long…
}
