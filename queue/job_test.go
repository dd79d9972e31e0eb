package queue_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/errandhq/errand/queue"
)

func nested(depth int) string { return strings.Repeat("[", depth) + strings.Repeat("]", depth) }

func TestPayloads(t *testing.T) {
	for _, good := range []string{
		`null`, `true`, ` {"a" : [1, 2.5, -3e10]} `, `""`, `"é😀"`, `"\ud83d\ude00"`, `"\\u0000"`, `"\""`, `"\\"`, `"\u00e9\n"`,
		`9007199254740993`, `1e400`, `-1E-400`, `{"a":1,"a":2}`, nested(1000), `[[],{},[{}]]`, `0`, `"\u0001"`, `-1.5e4000`, `15e-4000`,
		`{"x":1e30}`, "[" + strings.Repeat("1e-4000,", 15) + "1.5e-300]", "[" + strings.Repeat("1.5e-7,", 100_000) + "1]",
		"[" + strings.Repeat("1,", 500_000) + "1]", "[" + strings.Repeat("{},", 300_000) + "{}]",
	} {
		if err := (&queue.Job{Kind: "k", Payload: []byte(good)}).Check(0); err != nil {
			t.Errorf("%.40s: %v, want no error", good, err)
		}
	}
	for _, bad := range []string{
		``, ` `, `{`, `nul`, `"\u0000"`, `{"\u0000":1}`, `"a\\\u0000"`, `"\ud83d"`, `"\ude00"`, `"\ud83d\ud83d"`, `"\ud83dx"`, `"\ud83d\n"`,
		"\"\xff\"", "\"\x00\"", `1e4001`, `10e4000`, `-0.1e-4000`, `1e-99999999999999999999`, strings.Repeat("9", 4001), nested(1001), `01`, `"a`,
		"[" + strings.Repeat("1e4000,", 17) + "1]", "[" + strings.Repeat("1E-4000,", 17) + "1]",
		"[" + strings.Repeat("1.5e-12,", 100_000) + "1]",
	} {
		err := (&queue.Job{Kind: "k", Payload: []byte(bad)}).Check(0)
		var invalid *queue.InvalidError
		if !errors.As(err, &invalid) || invalid.Field != "Payload" {
			t.Errorf("%.40s: %v, want an InvalidError for Payload", bad, err)
		}
	}
}

func TestPayloadLength(t *testing.T) {
	payload := func(n int) *queue.Job {
		return &queue.Job{Kind: "k", Payload: []byte(`"` + strings.Repeat("x", n-2) + `"`)}
	}
	for _, c := range []struct {
		length, limit int
		ok            bool
	}{
		{1 << 20, 0, true}, {1<<20 + 1, 0, false}, {100, 100, true}, {101, 100, false},
	} {
		if err := payload(c.length).Check(c.limit); (err == nil) != c.ok {
			t.Errorf("%d bytes, limit %d: %v", c.length, c.limit, err)
		}
	}
}

func TestJobFields(t *testing.T) {
	long := strings.Repeat("x", 201)
	now := time.Now()
	for _, c := range []struct {
		field string
		job   *queue.Job
	}{
		{"Job", nil},
		{"Kind", &queue.Job{}},
		{"Kind", &queue.Job{Kind: long}},
		{"Kind", &queue.Job{Kind: "a\x00b"}},
		{"Kind", &queue.Job{Kind: "é"}},
		{"Queue", &queue.Job{Kind: "k", Queue: long}},
		{"Queue", &queue.Job{Kind: "k", Queue: "a\nb"}},
		{"Delay", &queue.Job{Kind: "k", Delay: -1}},
		{"Delay", &queue.Job{Kind: "k", Delay: 1, ScheduledAt: now}},
		{"ScheduledAt", &queue.Job{Kind: "k", ScheduledAt: now.AddDate(9000, 0, 0)}},
		{"MaxAttempts", &queue.Job{Kind: "k", MaxAttempts: -1}},
		{"Key", &queue.Job{Kind: "k", Key: strings.Repeat("x", 501)}},
		{"Key", &queue.Job{Kind: "k", Key: "\xff"}},
		{"Headers", &queue.Job{Kind: "k", Headers: map[string]string{"a": "\x00"}}},
		{"Headers", &queue.Job{Kind: "k", Headers: map[string]string{"a": strings.Repeat("x", 65_536)}}},
	} {
		var invalid *queue.InvalidError
		if err := c.job.Check(0); !errors.As(err, &invalid) || invalid.Field != c.field {
			t.Errorf("%.80s: %v, want an InvalidError for %s", fmt.Sprintf("%+v", c.job), err, c.field)
		}
	}
	good := &queue.Job{Kind: strings.Repeat("k", 200), Queue: "with space ~", Key: "é", Headers: map[string]string{"": ""}, ScheduledAt: now}
	if err := good.Check(0); err != nil {
		t.Errorf("%v, want no error", err)
	}
}

// FuzzPayload: Check never panics. A payload that it accepts is JSON that every SQL database
// stores.
func FuzzPayload(f *testing.F) {
	for _, seed := range []string{`{"a":[1,"\ud83d\ude00",null]}`, `"\u0000"`, `1e400`, `"\\u0000"`, `"\ud83d`, nested(50)} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		if payload == nil || (&queue.Job{Kind: "k", Payload: payload}).Check(0) != nil {
			return
		}
		decoder := json.NewDecoder(strings.NewReader(string(payload)))
		decoder.UseNumber()
		var v any
		if err := decoder.Decode(&v); err != nil {
			t.Fatalf("%q: %v", payload, err)
		}
		if text := fmt.Sprint(v); strings.Contains(text, "\x00") || strings.Contains(text, "\uFFFD") && !strings.Contains(string(payload), "\uFFFD") && !strings.Contains(strings.ToLower(string(payload)), `\ufffd`) {
			t.Errorf("%q decodes to %q", payload, text)
		}
	})
}

// FuzzName: a name passes if and only if it is 1 to 200 printable ASCII bytes.
func FuzzName(f *testing.F) {
	for _, seed := range []string{"", "email.welcome", "é", "a\x00", strings.Repeat("x", 200), strings.Repeat("x", 201)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		want := len(name) >= 1 && len(name) <= 200
		for _, c := range []byte(name) {
			want = want && ' ' <= c && c <= '~'
		}
		if err := (&queue.Job{Kind: name}).Check(0); (err == nil) != want {
			t.Errorf("%q: %v, want ok %v", name, err, want)
		}
	})
}

func BenchmarkJobCheck(b *testing.B) {
	job := newTask(1)
	b.ReportAllocs()
	for b.Loop() {
		if err := job.Check(0); err != nil {
			b.Fatal(err)
		}
	}
}
