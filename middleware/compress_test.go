package middleware_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/middleware"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/queuetest"
)

// codecGzipped is a job whose payload is data, compressed.
func codecGzipped(data []byte) *queue.Job {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = w.Write(data)
	_ = w.Close()
	return codecEncoded("gzip", out.Bytes())
}

// codecEncoded is a job whose payload is said to have become data.
func codecEncoded(encoding string, data []byte) *queue.Job {
	payload, _ := json.Marshal(data)
	return &queue.Job{Kind: "k", Payload: payload, Headers: map[string]string{middleware.EncodingHeader: encoding}}
}

// codecText is a JSON string of n bytes that compresses well.
func codecText(n int) json.RawMessage {
	return json.RawMessage(`"` + strings.Repeat("a", n-2) + `"`)
}

// codecNoise is a JSON string of n bytes without order: what gzip saves by their being printable,
// base64 loses again.
func codecNoise(n int) json.RawMessage {
	r := rand.New(rand.NewPCG(1, 1))
	text := make([]byte, n)
	for i := range text {
		text[i] = byte('A' + r.IntN('~'-'A'))
	}
	return json.RawMessage(`"` + strings.ReplaceAll(string(text), `\`, "!") + `"`)
}

func TestCompressChooses(t *testing.T) {
	for _, tt := range []struct {
		name     string
		compress middleware.Compress
		payload  json.RawMessage
		want     bool
	}{
		{"below the default Min", middleware.Compress{}, codecText(1023), false},
		{"the default Min", middleware.Compress{}, codecText(1024), true},
		{"below Min", middleware.Compress{Min: 100}, codecText(99), false},
		{"Min", middleware.Compress{Min: 100}, codecText(100), true},
		{"not shorter", middleware.Compress{Min: 1}, codecText(30), false},
		{"noise", middleware.Compress{}, codecNoise(5000), false},
		{"MaxPayload", middleware.Compress{MaxPayload: 5000}, codecText(5000), true},
		{"above MaxPayload", middleware.Compress{MaxPayload: 5000}, codecText(5001), false},
	} {
		stored := codecStored(t, &queue.Job{Kind: "k", Payload: tt.payload}, tt.compress.Enqueuer)
		if got := stored.Headers[middleware.EncodingHeader] == "gzip"; got != tt.want {
			t.Errorf("%s: compressed: got %v, want %v", tt.name, got, tt.want)
		}
		if plain := string(stored.Payload) == string(tt.payload); plain == tt.want {
			t.Errorf("%s: payload unchanged: got %v, want %v", tt.name, plain, !tt.want)
		}
		if tt.want && len(stored.Payload) >= len(tt.payload) {
			t.Errorf("%s: got %d bytes, want fewer than %d", tt.name, len(stored.Payload), len(tt.payload))
		}
		if got, err := codecDecoded(stored, tt.compress.Handler); err != nil || string(got) != string(tt.payload) {
			t.Errorf("%s: got %.50s, error %v, want %.50s", tt.name, got, err, tt.payload)
		}
	}
}

// What became exactly as long as it was stays as it was.
func TestCompressNeverLengthens(t *testing.T) {
	for n := 2; n < 200; n++ {
		payload := codecText(n)
		stored := codecStored(t, &queue.Job{Kind: "k", Payload: payload}, middleware.Compress{Min: 1}.Enqueuer)
		if stored.Headers != nil && len(stored.Payload) >= n || stored.Headers == nil && len(stored.Payload) != n {
			t.Errorf("%d bytes: got %d with headers %v", n, len(stored.Payload), stored.Headers)
		}
	}
}

// The writers and readers are used again, and keep nothing of the job before.
func TestCompressReuse(t *testing.T) {
	extent.Long(t)
	b, c := new(codecBackend), middleware.Compress{}
	var jobs []*queue.Job
	for i := range 20 {
		jobs = append(jobs, codecKind.New(newCodecOrder(2000*(i+1), uint64(i))))
	}
	if err := queue.ChainEnqueuer(b, c.Enqueuer).Enqueue(t.Context(), nil, jobs...); err != nil {
		t.Fatal(err)
	}
	i := 0
	h := c.Handler(queue.HandlerFunc(func(_ context.Context, got *queue.Job) error {
		if string(got.Payload) != string(jobs[i].Payload) {
			t.Errorf("job %d: got %d bytes, want the %d that were enqueued", i, len(got.Payload), len(jobs[i].Payload))
		}
		return nil
	}))
	for ; i < len(jobs); i++ {
		stored := b.calls[0][i]
		if stored.Headers[middleware.EncodingHeader] != "gzip" {
			t.Errorf("job %d of %d bytes: not compressed", i, len(jobs[i].Payload))
		}
		if err := h.HandleJob(t.Context(), stored); err != nil {
			t.Errorf("job %d: %v", i, err)
		}
	}
}

func TestCompressLevel(t *testing.T) {
	payload := codecKind.New(newCodecOrder(20_000, 1)).Payload
	var sizes []int
	for _, level := range []int{1, 0, 9} {
		stored := codecStored(t, &queue.Job{Kind: "k", Payload: payload}, middleware.Compress{Level: level}.Enqueuer)
		sizes = append(sizes, len(stored.Payload))
	}
	if sizes[0] <= sizes[1] || sizes[1] <= sizes[2] {
		t.Errorf("bytes at levels 1, 0, 9: got %v, want them to fall", sizes)
	}
}

func TestCompressBomb(t *testing.T) {
	bomb := codecGzipped(codecText(10 << 20))
	for _, tt := range []struct {
		max  int
		want bool
	}{{10 << 20, true}, {10<<20 - 1, false}, {1, false}, {0, true}} {
		payload, err := codecDecoded(bomb, middleware.Compress{MaxPayload: tt.max}.Handler)
		if tt.want && (err != nil || len(payload) != 10<<20) {
			t.Errorf("MaxPayload %d: got %d bytes, error %v, want %d", tt.max, len(payload), err, 10<<20)
		}
		if !tt.want {
			codecWantErr(t, err, "cannot be decompressed: longer than Compress.MaxPayload", queue.Retry)
		}
	}
}

// The limit holds while reading: what lies beyond it never is in memory.
func TestCompressBombIsNotRead(t *testing.T) {
	extent.Long(t)
	bomb := codecGzipped(codecText(64 << 20))
	h := middleware.Compress{MaxPayload: 1 << 10}.Handler(nil)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := h.HandleJob(t.Context(), bomb)
	runtime.ReadMemStats(&after)
	codecWantErr(t, err, "longer than Compress.MaxPayload", queue.Retry)
	if got := after.TotalAlloc - before.TotalAlloc; got > 8<<20 {
		t.Errorf("allocated: got %d bytes for a bomb of 64 MiB, want at most 8 MiB", got)
	}
}

func TestCompressCorrupt(t *testing.T) {
	whole := codecGzipped([]byte(`{"note":"` + codecMarker + `"}`))
	text := string(whole.Payload[1 : len(whole.Payload)-1])
	data, _ := base64.StdEncoding.DecodeString(text)
	flipped := bytes.Clone(data)
	flipped[len(flipped)/2] ^= 0x40
	for name, job := range map[string]*queue.Job{
		"empty":             codecEncoded("gzip", []byte{}),
		"not gzip":          codecEncoded("gzip", []byte(codecMarker)),
		"without its end":   codecEncoded("gzip", data[:len(data)-1]),
		"only its header":   codecEncoded("gzip", data[:10]),
		"flipped bit":       codecEncoded("gzip", flipped),
		"more behind it":    codecEncoded("gzip", append(bytes.Clone(data), codecMarker...)),
		"wrong checksum":    codecEncoded("gzip", append(bytes.Clone(data[:len(data)-8]), 1, 2, 3, 4, 5, 6, 7, 8)),
		"null":              {Payload: json.RawMessage("null"), Headers: whole.Headers},
		"nil":               {Headers: whole.Headers},
		"not a string":      {Payload: json.RawMessage(`{"note":"` + codecMarker + `"}`), Headers: whole.Headers},
		"not base64":        {Payload: json.RawMessage(`"` + codecMarker + `"`), Headers: whole.Headers},
		"half a string":     {Payload: json.RawMessage(`"`), Headers: whole.Headers},
		"without its quote": {Payload: whole.Payload[1:], Headers: whole.Headers},
	} {
		payload, err := codecDecoded(job, middleware.Compress{}.Handler)
		if payload != nil {
			t.Errorf("%s: got %s, want an error", name, payload)
		}
		codecWantErr(t, err, "middleware: the payload ", queue.Dead)
	}
	if got, err := codecDecoded(whole, middleware.Compress{}.Handler); err != nil || !strings.Contains(string(got), codecMarker) {
		t.Errorf("whole: got %s, error %v", got, err)
	}
}

func TestCompressMisconfigured(t *testing.T) {
	for field, c := range map[string]middleware.Compress{
		"Compress.Min":        {Min: -1},
		"Compress.Level":      {Level: 10},
		"Compress.MaxPayload": {MaxPayload: math.MaxInt},
	} {
		for end, construct := range map[string]func(){
			"Enqueuer": func() { queue.ChainEnqueuer(new(codecBackend), c.Enqueuer) },
			"Handler":  func() { queue.Chain(queue.NewMux(), c.Handler) },
		} {
			if got := codecPanic(construct); got == nil || got.Field != field {
				t.Errorf("%s of %+v: got panic %v, want an InvalidError of %s", end, c, got, field)
			}
		}
	}
	for _, level := range []int{-1, -2} {
		if got := codecPanic(func() { middleware.Compress{Level: level}.Enqueuer(nil) }); got == nil {
			t.Errorf("level %d: got no panic", level)
		}
	}
}

// codecPanic returns what f panics with.
func codecPanic(f func()) (invalid *queue.InvalidError) {
	defer func() {
		err, _ := recover().(error)
		errors.As(err, &invalid)
	}()
	f()
	return nil
}

func ExampleCompress() {
	ctx := context.Background()
	q := queuetest.New(queuetest.Options{}) // in a program: postgres.New
	compress := middleware.Compress{}
	enqueuer := queue.ChainEnqueuer(q, compress.Enqueuer)

	short := &queue.Job{Kind: "report", Payload: json.RawMessage(`{"id":1}`)}
	long := &queue.Job{Kind: "report", Payload: json.RawMessage(`["` + strings.Repeat("all work and no play ", 100) + `"]`)}
	if err := enqueuer.Enqueue(ctx, nil, short, long); err != nil {
		fmt.Println(err)
	}
	for _, job := range []*queue.Job{short, long} {
		stored, _, _ := q.Job(ctx, job.ID)
		fmt.Printf("%q %v\n", stored.Headers[middleware.EncodingHeader], len(stored.Payload) < len(job.Payload))
	}

	mux := queue.NewMux()
	mux.Handle("report", queue.HandlerFunc(func(ctx context.Context, job *queue.Job) error {
		fmt.Println("handled", len(job.Payload), "bytes")
		return nil
	}))
	if _, err := q.Drain(ctx, queue.Chain(mux, compress.Handler)); err != nil {
		fmt.Println(err)
	}
	// Output:
	// "" false
	// "gzip" true
	// handled 8 bytes
	// handled 2104 bytes
}

func BenchmarkCompress(b *testing.B) {
	c := middleware.Compress{}
	codecBenchmark(b, c.Enqueuer, c.Handler)
}

// codecBenchmark measures both ends with payloads of 1, 10 and 100 KiB, and how many times shorter
// the encoded ones are.
func codecBenchmark(b *testing.B, encode queue.EnqueueMiddleware, decode queue.Middleware) {
	ctx := context.Background()
	for _, size := range []int{1, 10, 100} {
		payload := codecKind.New(newCodecOrder(size<<10, 1)).Payload
		stored := codecStored(b, &queue.Job{Kind: "k", Payload: payload}, encode)
		b.Run(fmt.Sprintf("enqueue/%dKiB", size), func(b *testing.B) {
			e := encode(queue.EnqueuerFunc(func(context.Context, queue.DB, ...*queue.Job) error { return nil }))
			job := &queue.Job{Kind: "k", Payload: payload}
			b.SetBytes(int64(len(payload)))
			b.ReportAllocs()
			for b.Loop() {
				if err := e.Enqueue(ctx, nil, job); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(len(payload))/float64(len(stored.Payload)), "ratio")
		})
		b.Run(fmt.Sprintf("handle/%dKiB", size), func(b *testing.B) {
			h := decode(queue.HandlerFunc(func(context.Context, *queue.Job) error { return nil }))
			b.SetBytes(int64(len(payload)))
			b.ReportAllocs()
			for b.Loop() {
				if err := h.HandleJob(ctx, stored); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
