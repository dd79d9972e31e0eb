package queue_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/errandhq/errand/queue"
)

func TestKeyOf(t *testing.T) {
	berlin := time.FixedZone("", 3600)
	noon := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	long := strings.Repeat("x", 1000)
	same := [][2]string{
		{queue.KeyOf("k", 1, "a"), `k [1,"a"]`},
		{queue.KeyOf("k"), `k []`},
		{queue.KeyOf("k", 1), queue.KeyOf("k", int64(1))},
		{queue.KeyOf("k", noon), queue.KeyOf("k", noon.In(berlin))},
		{queue.KeyOf("k", map[string]int{"a": 1, "b": 2}), queue.KeyOf("k", map[string]int{"b": 2, "a": 1})},
		{queue.KeyOf("k", "<&>"), `k ["<&>"]`},
		{queue.KeyOf("k", math.NaN()), `k ["NaN"]`},
	}
	for _, s := range same {
		if s[0] != s[1] {
			t.Errorf("%q and %q are different", s[0], s[1])
		}
	}
	seen := map[string]bool{}
	for _, key := range []string{
		queue.KeyOf("k", "a", "b"), queue.KeyOf("k", `a","b`), queue.KeyOf("k", "a,b"), queue.KeyOf("k", []string{"a", "b"}),
		queue.KeyOf("k", 1), queue.KeyOf("k", "1"), queue.KeyOf("k", nil), queue.KeyOf("k", ""), queue.KeyOf("k"), queue.KeyOf("k2", 1),
		queue.KeyOf("k", long), queue.KeyOf("k", long+"x"), queue.KeyOf("k", long, "x"), queue.KeyOf("k2", long),
		queue.KeyOf(strings.Repeat("k", 200), long), queue.KeyOf("k", "a\x00b"),
	} {
		if seen[key] {
			t.Errorf("%q twice", key)
		}
		seen[key] = true
		if err := (&queue.Job{Kind: "k", Payload: []byte("1"), Key: key}).Check(0); err != nil {
			t.Errorf("%q: %v", key, err)
		}
	}
}

func TestRetryAfterOf(t *testing.T) {
	const otherwise = time.Minute
	in := func(d time.Duration) string { return time.Now().Add(d).UTC().Format("Mon, 02 Jan 2006 15:04:05 GMT") }
	for _, c := range []struct {
		header   string
		from, to time.Duration
	}{
		{"120", 2 * time.Minute, 2 * time.Minute},
		{" 5 ", 5 * time.Second, 5 * time.Second},
		{"0", 0, 0},
		{"", otherwise, otherwise},
		{"soon", otherwise, otherwise},
		{"-1", otherwise, otherwise},
		{"1.5", otherwise, otherwise},
		{"99999999999999999999", otherwise, otherwise},
		{"9999999999999", 24 * time.Hour, 24 * time.Hour},
		{in(time.Hour), time.Hour - 5*time.Second, time.Hour},
		{in(-time.Hour), 0, 0},
		{in(1000 * time.Hour), 24 * time.Hour, 24 * time.Hour},
	} {
		if got := queue.RetryAfterOf(map[string][]string{"Retry-After": {c.header}}, otherwise); got < c.from || got > c.to {
			t.Errorf("%q: %v, want %v to %v", c.header, got, c.from, c.to)
		}
	}
	if got := queue.RetryAfterOf(nil, otherwise); got != otherwise {
		t.Errorf("no header: %v, want %v", got, otherwise)
	}
}
