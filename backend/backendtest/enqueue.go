package backendtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"reflect"
	"strings"
	"testing"

	"github.com/errandhq/errand/queue"
)

var enqueueCases = []testCase{
	{"of none", anything, testEnqueueNone},
	{"ids in the order of the batch", anything, testEnqueueOrder},
	{"defaults", anything, testEnqueueDefaults},
	{"what is not the caller's to set", anything, testEnqueueIgnores},
	{"payloads come back", anything, testPayloads},
	{"headers come back", anything, testHeaders},
	{"fields come back", isInOrder, testFields},
	{"groups come back", isInOrder, testGroups},
}

func testEnqueueNone(t *testing.T, h Harness) {
	enqueue(t, h)
	claimNone(t, h, "after Enqueue of no jobs")
}

func testEnqueueOrder(t *testing.T, h Harness) {
	jobs := newJobs(100, func(i int, j *queue.Job) { j.Queue = []string{"q", "p", "o"}[i%3] })
	enqueue(t, h, jobs...)
	step := 1
	if h.Partitioned {
		step = 3 // compares jobs of one queue
	}
	for i := step; i < len(jobs); i++ {
		if jobs[i].ID <= jobs[i-step].ID {
			t.Fatalf("IDs of a batch: got %d at %d and %d at %d, want them to rise", jobs[i-step].ID, i-step, jobs[i].ID, i)
		}
	}
	last := newJob()
	enqueue(t, h, last)
	if last.ID <= jobs[99].ID {
		t.Errorf("ID of the next job: got %d, want more than %d", last.ID, jobs[99].ID)
	}
}

func testEnqueueDefaults(t *testing.T, h Harness) {
	j := &queue.Job{Kind: "k"}
	enqueue(t, h, j)
	req := request(2)
	req.Queues = []string{queue.DefaultQueue}
	got := claim(t, h, req)
	wantIDs(t, "claim of the default queue", got, []*queue.Job{j})
	g := got[0]
	if g.Queue != queue.DefaultQueue || g.MaxAttempts != queue.DefaultMaxAttempts || g.Priority != 0 || g.Key != "" || len(g.Headers) != 0 {
		t.Errorf("claimed job: got %+v, want the defaults", g)
	}
	wantJSON(t, "nil payload", g.Payload, "null")
}

func testEnqueueIgnores(t *testing.T, h Harness) {
	first, second := newJob(), newJob()
	enqueue(t, h, first)
	second.ID, second.Attempt, second.Fence, second.Worker = first.ID, 4, 77, "someone"
	second.LastError, second.Duplicate = "old", true
	enqueue(t, h, second)
	if second.ID == first.ID || second.Duplicate {
		t.Fatalf("Enqueue of a job that bears the ID of another: got ID %d, Duplicate %v; want a new ID, false", second.ID, second.Duplicate)
	}
	got := claimAll(t, h, 2)[1]
	if got.ID != second.ID || got.Attempt != 1 || got.LastError != "" || got.Worker != "w" {
		t.Errorf("claimed job: got %+v, want ID %d, Attempt 1, no LastError, Worker w", got, second.ID)
	}
}

func testPayloads(t *testing.T, h Harness) {
	payloads := []string{
		`null`, `true`, `false`, `0`, `-0`, `""`, `{}`, `[]`, `[[], {}, [null]]`,
		`9007199254740993`, `-9223372036854775808`, `18446744073709551616`, `123456789012345678901234567890`,
		`1.5`, `-0.000001`, `3.141592653589793238462643383279`, `1e3`, `1.5E-7`, `1e4000`, `1e-4000`,
		strings.Repeat("9", 4000),
		`"plain"`, `"it's \"quoted\" \\ and / \/ {1,2} , NULL"`, `"tab\t newline\n bell\u0007 del` + "\x7f" + `"`,
		`"ünï © 漢字 𝄞 \ud834\udd1e \u00e9 \uffff"`, `"zero\u200bwidth ` + "\u202e" + `rtl"`,
		`{"a": {"b": [1, {"c": null}]}, "": "empty name", "ünï": 1, "a b": [true]}`,
		`{"twice": 1, "twice": 2}`, ` { "white" :	"space" } `,
		`"` + strings.Repeat("x", 200_000) + `"`, `"` + strings.Repeat("漢", 60_000) + `"`,
		strings.Repeat("[", 1000) + strings.Repeat("]", 1000),
		"[" + strings.Repeat("1e4000,", 15) + "1]", "[" + strings.Repeat("1e-7, {}, ", 20_000) + "1]",
	}
	jobs := newJobs(len(payloads), func(i int, j *queue.Job) { j.Payload = json.RawMessage(payloads[i]) })
	jobs = append(jobs, &queue.Job{Queue: "q", Kind: "k"})
	payloads = append(payloads, "null")
	enqueue(t, h, jobs...)
	for i, j := range claimAll(t, h, len(jobs)) {
		wantJSON(t, fmt.Sprintf("payload %.40s", payloads[i]), j.Payload, payloads[i])
		if sent, got := len(payloads[i]), len(j.Payload); got > sent+max(sent, 64<<10) {
			t.Errorf("payload %.40s of %d bytes came back with %d, which is more than twice as many", payloads[i], sent, got)
		}
	}
}

// wantJSON checks that got is the same JSON value as want.
func wantJSON(t *testing.T, what string, got json.RawMessage, want string) {
	t.Helper()
	g, err := jsonValue(got)
	if err != nil {
		t.Errorf("%s: got %.80q, which is no JSON: %v", what, got, err)
		return
	}
	w, err := jsonValue([]byte(want))
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if !reflect.DeepEqual(g, w) {
		t.Errorf("%s: got %.80s (%d bytes), want %.80s (%d bytes)", what, got, len(got), want, len(want))
	}
}

// jsonValue decodes a JSON value with exact numbers.
func jsonValue(b []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	return exact(v), nil
}

// exact replaces numbers by fractions in lowest terms, so that 1.0 and 1 are the same.
func exact(v any) any {
	switch v := v.(type) {
	case json.Number:
		r, ok := new(big.Rat).SetString(string(v))
		if !ok {
			return "not a number: " + string(v)
		}
		return r.RatString()
	case []any:
		for i := range v {
			v[i] = exact(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = exact(v[k])
		}
	}
	return v
}

func testHeaders(t *testing.T, h Harness) {
	headers := []map[string]string{
		nil, {}, {"trace": "00-abc-01"}, {"": ""}, {"ünï": `"quoted" \ 'x' {1,2}`, "NULL": "NULL", "a": "line\nline"},
		{"large": strings.Repeat("x", 60_000)},
	}
	enqueue(t, h, newJobs(len(headers), func(i int, j *queue.Job) { j.Headers = headers[i] })...)
	for i, j := range claimAll(t, h, len(headers)) {
		if !maps.Equal(j.Headers, headers[i]) {
			t.Errorf("headers: got %.200q, want %.200q", fmt.Sprint(j.Headers), fmt.Sprint(headers[i]))
		}
	}
}

func testFields(t *testing.T, h Harness) {
	jobs := newJobs(4, func(i int, j *queue.Job) {
		j.Priority = []int32{-1 << 31, -1, 0, 1<<31 - 2}[i]
		j.MaxAttempts = []int{1, 2, 1_000_000, 25}[i]
		j.Key = []string{"k", `it's "odd" \ {a,b} % NULL`, "ünï\n漢字", strings.Repeat("x", 500)}[i]
		j.Kind = []string{"a", "a.b-c_d/e:f", "~ !", strings.Repeat("k", 200)}[i]
		j.Group = []string{"", "acme", `it's "odd" \ {a,b} % NULL`, strings.Repeat("漢", 66)}[i]
	})
	enqueue(t, h, jobs...)
	for i, got := range claimAll(t, h, 4) {
		want := jobs[i]
		if got.ID != want.ID || got.Priority != want.Priority || got.MaxAttempts != want.MaxAttempts ||
			got.Key != want.Key || got.Group != want.Group || got.Kind != want.Kind || got.Queue != want.Queue {
			t.Errorf("claimed job: got %+v, want %+v", got, want)
		}
	}
}

// testGroups: whichever statement writes a job with a group, with a key or not, alone or in a
// batch, Claim and the Inspector return its group.
func testGroups(t *testing.T, h Harness) {
	grouped := func(key string) *queue.Job {
		j := newJob()
		j.Key, j.Group = key, "group of "+key
		return j
	}
	plain := newJob()
	jobs := []*queue.Job{grouped(""), grouped("alone"), grouped("a"), grouped(""), plain, grouped(""), newJob()}
	enqueue(t, h, jobs[0])
	enqueue(t, h, jobs[1])
	enqueue(t, h, jobs[2:5]...)
	enqueue(t, h, jobs[5:]...)
	for i, got := range claimAll(t, h, len(jobs)) {
		if want := jobs[i]; got.ID != want.ID || got.Group != want.Group || got.Key != want.Key {
			t.Errorf("claimed job: got ID %d, Group %q, Key %q; want %d, %q, %q", got.ID, got.Group, got.Key, want.ID, want.Group, want.Key)
		}
		if rec, ok := lookUp(t, h, got.ID); ok && rec.Group != jobs[i].Group {
			t.Errorf("record: got Group %q, want %q", rec.Group, jobs[i].Group)
		}
	}
}
