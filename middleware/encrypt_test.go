package middleware_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"testing"

	"github.com/errandhq/errand/middleware"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/queuetest"
)

// codecKey is the key of that id in these tests.
func codecKey(id string) []byte {
	return []byte((id + ": a secret of thirty-two bytes, no less")[:32])
}

func newCodecEncrypt(t testing.TB, current string, ids ...string) *middleware.Encrypt {
	t.Helper()
	return codecEncryptWith(t, middleware.EncryptOptions{Current: current}, ids...)
}

func codecEncryptWith(t testing.TB, o middleware.EncryptOptions, ids ...string) *middleware.Encrypt {
	t.Helper()
	o.Keys = middleware.Keys{}
	for _, id := range ids {
		o.Keys[id] = codecKey(id)
	}
	c, err := middleware.NewEncrypt(o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestEncryptMisconfigured(t *testing.T) {
	secret := "s3cr3t-key-bytes"
	for _, tt := range []struct {
		name    string
		options middleware.EncryptOptions
		field   string
		part    string
	}{
		{"nothing", middleware.EncryptOptions{}, "Keys", "empty"},
		{"no current", middleware.EncryptOptions{Keys: middleware.Keys{"k1": codecKey("k1")}}, "Current", `"k1"`},
		{"another current", middleware.EncryptOptions{Keys: middleware.Keys{"k1": codecKey("k1")}, Current: secret}, "Current", `"k1"`},
		{"short key", middleware.EncryptOptions{Keys: middleware.Keys{"k1": []byte(secret)[:15]}, Current: "k1"}, "Keys", `"k1" has 15 bytes`},
		{"long key", middleware.EncryptOptions{Keys: middleware.Keys{"k1": append(codecKey("k1"), 'x')}, Current: "k1"}, "Keys", `"k1" has 33 bytes`},
		{"no key", middleware.EncryptOptions{Keys: middleware.Keys{"k1": nil}, Current: "k1"}, "Keys", `"k1" has 0 bytes`},
		{"no id", middleware.EncryptOptions{Keys: middleware.Keys{"": codecKey("k1")}, Current: ""}, "Keys", "an id of 0 bytes"},
		{"comma", middleware.EncryptOptions{Keys: middleware.Keys{secret + ",": codecKey("k1")}}, "Keys", "a comma"},
		{"semicolon", middleware.EncryptOptions{Keys: middleware.Keys{secret + ";": codecKey("k1")}}, "Keys", "a semicolon"},
		{"space", middleware.EncryptOptions{Keys: middleware.Keys{secret + " ": codecKey("k1")}}, "Keys", "a space"},
		{"not ASCII", middleware.EncryptOptions{Keys: middleware.Keys{secret + "é": codecKey("k1")}}, "Keys", "ASCII"},
		{"long id", middleware.EncryptOptions{Keys: middleware.Keys{strings.Repeat(secret, 10): codecKey("k1")}}, "Keys", "an id of 160 bytes"},
	} {
		c, err := middleware.NewEncrypt(tt.options)
		var invalid *queue.InvalidError
		if c != nil || !errors.As(err, &invalid) || invalid.Field != tt.field || !strings.Contains(invalid.Problem, tt.part) {
			t.Errorf("%s: got %v, want an InvalidError of %s with %q", tt.name, err, tt.field, tt.part)
		}
		if err != nil && strings.Contains(fmt.Sprintf("%v %+v %#v", err, err, err), secret[:8]) {
			t.Errorf("%s: the error shows a key: %v", tt.name, err)
		}
	}
}

func TestEncryptKeyLengths(t *testing.T) {
	for _, n := range []int{16, 24, 32} {
		key := codecKey("k1")[:n]
		c, err := middleware.NewEncrypt(middleware.EncryptOptions{Keys: middleware.Keys{"k1": key}, Current: "k1"})
		if err != nil {
			t.Fatal(err)
		}
		clear(key) // the caller's to wipe
		stored := codecStored(t, &queue.Job{Kind: "k", Payload: json.RawMessage("1")}, c.Enqueuer)
		if got, err := codecDecoded(stored, c.Handler); err != nil || string(got) != "1" {
			t.Errorf("%d bytes: got %s, error %v", n, got, err)
		}
		wiped, err := middleware.NewEncrypt(middleware.EncryptOptions{Keys: middleware.Keys{"k1": key}, Current: "k1"})
		if err != nil {
			t.Fatal(err)
		}
		_, err = codecDecoded(stored, wiped.Handler)
		codecWantErr(t, err, `does not open with the key "k1"`, queue.Dead)
	}
}

func TestEncryptRotation(t *testing.T) {
	order := codecKind.New(newCodecOrder(1, 1))
	first, both, last := newCodecEncrypt(t, "k1", "k1"), newCodecEncrypt(t, "k2", "k1", "k2"), newCodecEncrypt(t, "k2", "k2")
	old, fresh := codecStored(t, order, first.Enqueuer), codecStored(t, order, both.Enqueuer)
	if got := fresh.Headers[middleware.EncodingHeader]; got != "aes-gcm;key=k2" {
		t.Errorf("encoding: got %q, want the current key", got)
	}
	for _, tt := range []struct {
		name    string
		encrypt *middleware.Encrypt
		job     *queue.Job
		missing string
	}{
		{"old with both", both, old, ""},
		{"new with both", both, fresh, ""},
		{"new with the last", last, fresh, ""},
		{"old with the last", last, old, `"k1"`},
		{"new with the first", first, fresh, `"k2"`},
	} {
		payload, err := codecDecoded(tt.job, tt.encrypt.Handler)
		if tt.missing != "" {
			codecWantErr(t, err, "with the key "+tt.missing+", which Encrypt does not have", queue.Retry)
		} else if err != nil || string(payload) != string(order.Payload) {
			t.Errorf("%s: got %s, error %v", tt.name, payload, err)
		}
	}
}

// The same payload never looks the same twice.
func TestEncryptNonces(t *testing.T) {
	c := newCodecEncrypt(t, "k1", "k1")
	seen := make(map[string]bool)
	for range 1000 {
		stored := codecStored(t, &queue.Job{Kind: "k"}, c.Enqueuer)
		seen[string(stored.Payload[1:17])] = true // the nonce: 12 bytes, 16 in base64
	}
	if len(seen) != 1000 {
		t.Errorf("nonces: got %d of 1000 that differ", len(seen))
	}
}

// Every byte of what is stored counts, in each of the three ways that base64 can end.
func TestEncryptTamperedPayload(t *testing.T) {
	c := newCodecEncrypt(t, "k1", "k1")
	for _, pad := range []string{"", "1", "22"} {
		stored := codecStored(t, &queue.Job{Kind: "k", Payload: json.RawMessage(`"` + codecMarker + pad + `"`)}, c.Enqueuer)
		original := bytes.Clone(stored.Payload)
		for i := range original {
			for b := range 256 {
				stored.Payload[i] = byte(b)
				payload, err := codecDecoded(stored, c.Handler)
				if byte(b) == original[i] {
					if err != nil {
						t.Errorf("untouched: got %v", err)
					}
					continue
				}
				if payload != nil || err == nil {
					t.Errorf("byte %d of %s as %#x: opened", i, original, b)
				}
				codecWantErr(t, err, "middleware: the payload ", queue.Dead)
			}
			stored.Payload[i] = original[i]
		}
		for n := range original {
			stored.Payload = original[:n]
			_, err := codecDecoded(stored, c.Handler)
			codecWantErr(t, err, "middleware: the payload ", queue.Dead)
		}
	}
}

// A payload opens only in a job like the one that it was enqueued with.
func TestEncryptBinding(t *testing.T) {
	c := codecEncryptWith(t, middleware.EncryptOptions{Current: "k1"}, "k1", "k2")
	compress := middleware.Compress{Min: 1}
	order := codecKind.New(newCodecOrder(2000, 1))
	order.Kind, order.Queue = "ab", "cd"
	encoding := func(e string) func(*queue.Job) {
		return func(job *queue.Job) { job.Headers = map[string]string{middleware.EncodingHeader: e} }
	}
	for name, change := range map[string]func(job *queue.Job){
		"another kind":        func(job *queue.Job) { job.Kind = "ac" },
		"another queue":       func(job *queue.Job) { job.Queue = "ce" },
		"the default queue":   func(job *queue.Job) { job.Queue = queue.DefaultQueue },
		"a letter moved":      func(job *queue.Job) { job.Queue, job.Kind = "cda", "b" },
		"kind and queue":      func(job *queue.Job) { job.Queue, job.Kind = job.Kind, job.Queue },
		"without gzip":        encoding("aes-gcm;key=k1"),
		"gzip twice":          encoding("gzip, gzip, aes-gcm;key=k1"),
		"another known key":   encoding("gzip, aes-gcm;key=k2"),
		"encrypted twice":     encoding("gzip, aes-gcm;key=k1, aes-gcm;key=k1"),
		"a space less":        encoding("gzip,aes-gcm;key=k1"),
		"no encoding":         func(job *queue.Job) { job.Headers = nil },
		"compressed only":     encoding("gzip"),
		"the key not named":   encoding("gzip, aes-gcm"),
		"the key named twice": encoding("gzip, aes-gcm;key=k1;key=k2"),
	} {
		job := codecStored(t, order, compress.Enqueuer, c.Enqueuer)
		if _, err := codecDecoded(job, c.Handler, compress.Handler); err != nil {
			t.Fatalf("unchanged: %v", err)
		}
		change(job)
		if payload, err := codecDecoded(job, c.Handler, compress.Handler); err == nil {
			t.Errorf("%s: got %s, want an error", name, payload)
		}
	}
	job := codecStored(t, order, c.Enqueuer)
	job.Kind = "ac"
	_, err := codecDecoded(job, c.Handler)
	codecWantErr(t, err, `does not open with the key "k1"`, queue.Dead)
}

// A job without a queue comes back with the default one, and opens.
func TestEncryptDefaultQueue(t *testing.T) {
	c := newCodecEncrypt(t, "k1", "k1")
	for _, enqueued := range []string{"", queue.DefaultQueue} {
		for _, claimed := range []string{"", queue.DefaultQueue} {
			job := codecStored(t, &queue.Job{Kind: "k", Queue: enqueued}, c.Enqueuer)
			job.Queue = claimed
			if _, err := codecDecoded(job, c.Handler); err != nil {
				t.Errorf("enqueued as %q and claimed as %q: %v", enqueued, claimed, err)
			}
		}
	}
}

func TestEncryptPlain(t *testing.T) {
	order := codecKind.New(newCodecOrder(2000, 1))
	compress := middleware.Compress{}
	strict := newCodecEncrypt(t, "k1", "k1")
	lenient := codecEncryptWith(t, middleware.EncryptOptions{Current: "k1", AllowPlain: true}, "k1")
	for name, job := range map[string]*queue.Job{
		"plain":      codecStored(t, order),
		"compressed": codecStored(t, order, compress.Enqueuer),
	} {
		_, err := codecDecoded(job, strict.Handler, compress.Handler)
		codecWantErr(t, err, "the payload is not encrypted", queue.Dead)
		if got, err := codecDecoded(job, lenient.Handler, compress.Handler); err != nil || string(got) != string(order.Payload) {
			t.Errorf("%s, allowed: got %s, error %v", name, got, err)
		}
	}
	encrypted := codecStored(t, order, strict.Enqueuer)
	encrypted.Kind = "another"
	_, err := codecDecoded(encrypted, lenient.Handler)
	codecWantErr(t, err, "does not open", queue.Dead)
}

// Neither Encrypt nor Keys shows a key, however it is printed.
func TestEncryptShowsNoKeys(t *testing.T) {
	key := codecKey("k1")
	o := middleware.EncryptOptions{Keys: middleware.Keys{"k1": key}, Current: "k1"}
	c, err := middleware.NewEncrypt(o)
	if err != nil {
		t.Fatal(err)
	}
	type config struct{ Encrypt any }
	var out strings.Builder
	text := slog.New(slog.NewTextHandler(&out, nil))
	jsonLog := slog.New(slog.NewJSONHandler(&out, nil))
	for _, v := range []any{o.Keys, &o.Keys, o, &o, c, *c, config{o}, config{c}, config{*c}, map[string]any{"k": o}, struct{ c *middleware.Encrypt }{c}, struct{ c middleware.Encrypt }{*c}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%b", "%o", "%U", "%c"} {
			fmt.Fprintf(&out, verb+"\n", v)
		}
		text.Info("text", "value", v)
		jsonLog.Info("json", "value", v)
	}
	for _, form := range []string{
		string(key), hex.EncodeToString(key), strings.ToUpper(hex.EncodeToString(key)), base64.StdEncoding.EncodeToString(key),
		strings.Trim(fmt.Sprintf("%d", key), "[]"), strings.Trim(fmt.Sprintf("%b", key), "[]"),
		strings.TrimSuffix(strings.TrimPrefix(fmt.Sprintf("%#v", key), "[]byte{"), "}"),
	} {
		if strings.Contains(out.String(), form) {
			t.Errorf("the key is shown as %s in\n%s", form, &out)
		}
	}
	if got, want := fmt.Sprint(o.Keys), `middleware.Keys["k1"]`; got != want {
		t.Errorf("Keys: got %s, want %s", got, want)
	}
}

// FuzzDecode hands whatever it finds to both handlers: neither panics, and without the key nobody
// makes up a job.
func FuzzDecode(f *testing.F) {
	other, err := middleware.NewEncrypt(middleware.EncryptOptions{Keys: middleware.Keys{"k1": make([]byte, 32)}, Current: "k1"})
	if err != nil {
		f.Fatal(err)
	}
	order := codecKind.New(newCodecOrder(2000, 1))
	compress := middleware.Compress{Min: 1, MaxPayload: 1 << 16}
	for _, chain := range [][]queue.EnqueueMiddleware{{compress.Enqueuer}, {other.Enqueuer}, {compress.Enqueuer, other.Enqueuer}} {
		stored := codecStored(f, order, chain...)
		f.Add(stored.Headers[middleware.EncodingHeader], []byte(stored.Payload))
	}
	f.Add("", []byte(`{}`))
	f.Add(", gzip", []byte(`"\u0041AAA"`))
	f.Add("gzip, aes-gcm;key=", []byte(`"`))
	encrypt := newCodecEncrypt(f, "k1", "k1")
	f.Fuzz(func(t *testing.T, encoding string, payload []byte) {
		job := &queue.Job{Kind: order.Kind, Queue: queue.DefaultQueue, Payload: payload, Headers: map[string]string{middleware.EncodingHeader: encoding}}
		before := *job
		before.Payload, before.Headers = bytes.Clone(payload), maps.Clone(job.Headers)
		if got, err := codecDecoded(job, encrypt.Handler); err == nil {
			t.Errorf("Encrypt: %q opened to %q", payload, got)
		}
		if got, err := codecDecoded(job, compress.Handler); err == nil && encoding != "" && len(got) > (1<<16+2)/3*4+2 {
			t.Errorf("Compress: got %d bytes, which is beyond MaxPayload", len(got))
		}
		if !bytes.Equal(job.Payload, before.Payload) || !maps.Equal(job.Headers, before.Headers) {
			t.Errorf("the job was changed: got %+v, want %+v", job, before)
		}
	})
}

func ExampleNewEncrypt() {
	ctx := context.Background()
	encrypt, err := middleware.NewEncrypt(middleware.EncryptOptions{
		Keys: middleware.Keys{ // 32 random bytes each, from where secrets are kept
			"2026-01": []byte("the old key: thirty-two bytes ok"),
			"2026-07": []byte("the new key: thirty-two bytes ok"),
		},
		Current: "2026-07",
	})
	if err != nil {
		fmt.Println(err)
	}

	q := queuetest.New(queuetest.Options{}) // in a program: postgres.New
	enqueuer := queue.ChainEnqueuer(q, encrypt.Enqueuer)
	job := &queue.Job{Kind: "card.charge", Payload: json.RawMessage(`{"card":"4111 1111 1111 1111"}`)}
	if err := enqueuer.Enqueue(ctx, nil, job); err != nil {
		fmt.Println(err)
	}
	stored, _, _ := q.Job(ctx, job.ID)
	fmt.Println(strings.Contains(string(stored.Payload), "4111"), stored.Headers)

	mux := queue.NewMux()
	mux.Handle("card.charge", queue.HandlerFunc(func(ctx context.Context, job *queue.Job) error {
		fmt.Printf("%s\n", job.Payload)
		return nil
	}))
	if _, err := q.Drain(ctx, queue.Chain(mux, encrypt.Handler)); err != nil {
		fmt.Println(err)
	}
	// Output:
	// false map[errand-encoding:aes-gcm;key=2026-07]
	// {"card":"4111 1111 1111 1111"}
}

func BenchmarkEncrypt(b *testing.B) {
	c := newCodecEncrypt(b, "k1", "k1")
	codecBenchmark(b, c.Enqueuer, c.Handler)
}

// TestEncryptZeroValue: without keys there is no encryption, and that is said before a job is lost.
func TestEncryptZeroValue(t *testing.T) {
	wantPanic(t, "NewEncrypt", func() { new(middleware.Encrypt).Enqueuer(queuetest.New(queuetest.Options{})) })
	wantPanic(t, "NewEncrypt", func() { new(middleware.Encrypt).Handler(queue.NewMux()) })
}
