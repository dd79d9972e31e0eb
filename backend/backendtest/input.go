package backendtest

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

var inputCases = []testCase{
	{"bad jobs", anything, testBadJobs},
	{"bad claims", anything, testBadClaims},
	{"huge limits", anything, testHugeLimits},
	{"far times", anything, testFarTimes},
	{"bad leases", anything, testBadLeases},
	{"bad outcomes", anything, testBadOutcomes},
	{"bad redrive", hasEditor, testBadRedrive},
	{"bad filter", hasInspector, testBadFilter},
	{"bad claim in a transaction", hasTxClaimer, testBadClaimTx},
	{"bad job in a transaction", hasTx, testBadJobInTx},
	{"nil handles", anything, testNilHandles},
	{"claim without a transaction", hasTxClaimer, testClaimWithoutTx},
}

// wantInvalid checks that err is an InvalidError about that field.
func wantInvalid(t *testing.T, what string, err error, field string) {
	t.Helper()
	var invalid *queue.InvalidError
	if !errors.As(err, &invalid) {
		t.Errorf("%s: got error %v, want an InvalidError about %s", what, err, field)
		return
	}
	if invalid.Field != field || invalid.Problem == "" {
		t.Errorf("%s: got an InvalidError about %q: %q; want one about %q", what, invalid.Field, invalid.Problem, field)
	}
}

var badNames = map[string]string{
	"201 bytes":   strings.Repeat("x", 201),
	"NUL":         "a\x00b",
	"newline":     "a\nb",
	"not ASCII":   "é",
	"not UTF-8":   "\xff",
	"DEL":         "\x7f",
	"empty":       "",
	"2,000 bytes": strings.Repeat("x", 2000),
}

type badJob struct {
	what  string
	field string
	set   func(j *queue.Job)
}

func badJobs() []badJob {
	bad := []badJob{
		{"negative Delay", "Delay", func(j *queue.Job) { j.Delay = -1 }},
		{"Delay of 200 years", "Delay", func(j *queue.Job) { j.Delay = 200 * 365 * 24 * time.Hour }},
		{"lowest Delay", "Delay", func(j *queue.Job) { j.Delay = math.MinInt64 }},
		{"highest Delay", "Delay", func(j *queue.Job) { j.Delay = math.MaxInt64 }},
		{"Delay beside ScheduledAt", "Delay", func(j *queue.Job) { j.Delay, j.ScheduledAt = 1, time.Now() }},
		{"ScheduledAt in 1969", "ScheduledAt", func(j *queue.Job) { j.ScheduledAt = time.Unix(-1, 0) }},
		{"ScheduledAt in the year 0", "ScheduledAt", func(j *queue.Job) { j.ScheduledAt = time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC) }},
		{"ScheduledAt in the year -1", "ScheduledAt", func(j *queue.Job) { j.ScheduledAt = time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC) }},
		{"ScheduledAt in 10000", "ScheduledAt", func(j *queue.Job) { j.ScheduledAt = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) }},
		{"negative MaxAttempts", "MaxAttempts", func(j *queue.Job) { j.MaxAttempts = -1 }},
		{"huge MaxAttempts", "MaxAttempts", func(j *queue.Job) { j.MaxAttempts = math.MaxInt }},
		{"Key of 501 bytes", "Key", func(j *queue.Job) { j.Key = strings.Repeat("x", 501) }},
		{"Key with NUL", "Key", func(j *queue.Job) { j.Key = "a\x00" }},
		{"Key not UTF-8", "Key", func(j *queue.Job) { j.Key = "\xc3\x28" }},
		{"Group of 201 bytes", "Group", func(j *queue.Job) { j.Group = strings.Repeat("x", 201) }},
		{"Group with NUL", "Group", func(j *queue.Job) { j.Group = "a\x00" }},
		{"Ordered without Group", "Ordered", func(j *queue.Job) { j.Ordered = true }},
		{"Ordered with Priority", "Priority", func(j *queue.Job) { j.Group, j.Ordered, j.Priority = "g", true, -1 }},
		{"highest Priority", "Priority", func(j *queue.Job) { j.Priority = math.MaxInt32 }},
		{"Group not UTF-8", "Group", func(j *queue.Job) { j.Group = "\xc3\x28" }},
		{"unknown OnDuplicate", "OnDuplicate", func(j *queue.Job) { j.Key, j.OnDuplicate = "a", "drop" }},
		{"Replace without Key", "OnDuplicate", func(j *queue.Job) { j.OnDuplicate = queue.Replace }},
		{"MaxDelay without Replace", "MaxDelay", func(j *queue.Job) { j.Key, j.Delay, j.MaxDelay = "a", 1, 1 }},
		{"MaxDelay without Delay", "MaxDelay", replaceWithin(0, 1)},
		{"MaxDelay shorter than Delay", "MaxDelay", replaceWithin(2, 1)},
		{"negative MaxDelay", "MaxDelay", replaceWithin(1, -1)},
		{"MaxDelay of 200 years", "MaxDelay", replaceWithin(1, 200*365*24*time.Hour)},
		{"header name with NUL", "Headers", func(j *queue.Job) { j.Headers = map[string]string{"\x00": ""} }},
		{"header not UTF-8", "Headers", func(j *queue.Job) { j.Headers = map[string]string{"a": "\xff"} }},
		{"headers of 70 KB", "Headers", func(j *queue.Job) { j.Headers = map[string]string{"a": strings.Repeat("x", 70_000)} }},
		{"what JSON has no word for", "Payload", func(j *queue.Job) { *j = *queue.NewKind[func()]("k").New(nil); j.Queue = "q" }},
	}
	for what, name := range badNames {
		bad = append(bad, badJob{"Kind " + what, "Kind", func(j *queue.Job) { j.Kind = name }})
		if name != "" {
			bad = append(bad, badJob{"Queue " + what, "Queue", func(j *queue.Job) { j.Queue = name }})
		}
	}
	for what, payload := range badPayloads {
		bad = append(bad, badJob{"Payload " + what, "Payload", func(j *queue.Job) { j.Payload = json.RawMessage(payload) }})
	}
	return bad
}

// replaceWithin sets OnDuplicate to Replace, Delay and MaxDelay.
func replaceWithin(delay, longest time.Duration) func(*queue.Job) {
	return func(j *queue.Job) {
		j.Key, j.OnDuplicate, j.Delay, j.MaxDelay = "a", queue.Replace, delay, longest
	}
}

// longPayload is a byte longer than a backend accepts by default.
var longPayload = json.RawMessage(`"` + strings.Repeat("x", queue.DefaultMaxPayload-1) + `"`)

var badPayloads = map[string]string{
	"empty":                      ``,
	"white space":                ` `,
	"not JSON":                   `{"a": }`,
	"two values":                 `1 2`,
	"bare word":                  `NaN`,
	"many exponents":             `[` + strings.Repeat(`1e4000,`, 149_000) + `1]`,
	"exponents for 68 kB":        `[` + strings.Repeat(`1e4000,`, 17) + `1]`,
	"escaped NUL":                `{"a": ["b\u0000"]}`,
	"escaped NUL in a name":      `{"a\u0000": 1}`,
	"raw NUL":                    "\"\x00\"",
	"unpaired high surrogate":    `"\ud834 x"`,
	"unpaired low surrogate":     `"\udd1e"`,
	"surrogates the wrong way":   `"\udd1e\ud834"`,
	"high surrogate at the end":  `"\ud834"`,
	"surrogate before an escape": `"\ud834\n"`,
	"not UTF-8":                  "\"\xff\"",
	"surrogate as bytes":         "\"\xed\xa0\x80\"",
	"exponent too large":         `1e999999`,
	"exponent too small":         `[1e-999999]`,
	"exponent beyond 64 bits":    `1e99999999999999999999`,
	"number too long":            strings.Repeat("9", 4001),
	"nested too deep":            strings.Repeat("[", 1001) + strings.Repeat("]", 1001),
	"over a MiB":                 `"` + strings.Repeat("x", 1<<20) + `"`,
}

func testBadJobs(t *testing.T, h Harness) {
	for _, b := range badJobs() {
		bad := newJob()
		b.set(bad)
		wantInvalid(t, "Enqueue of a job with "+b.what, h.Queue.Enqueue(t.Context(), nil, bad), b.field)
		err := h.Queue.Enqueue(t.Context(), nil, newJob(), bad, newJob())
		wantInvalid(t, "Enqueue of three jobs, the second with "+b.what, err, b.field)
	}
	wantInvalid(t, "Enqueue of a nil job", h.Queue.Enqueue(t.Context(), nil, nil), "Job")
	wantInvalid(t, "Enqueue of a good job and a nil one", h.Queue.Enqueue(t.Context(), nil, newJob(), nil), "Job")
	claimNone(t, h, "after batches with bad jobs")

	wantNoJobs(t, h, "after batches with bad jobs")
	largest := newJob()
	largest.Payload = json.RawMessage(`"` + strings.Repeat("x", 1<<20-2) + `"`)
	enqueue(t, h, largest)
	wantJSON(t, "payload of exactly a MiB", claimOne(t, h).Payload, string(largest.Payload))
}

// wantNoJobs checks that there are no jobs at all, if the backend is an Inspector.
func wantNoJobs(t *testing.T, h Harness, when string) {
	t.Helper()
	inspector, ok := driver.As[driver.Inspector](h.Queue)
	if !ok {
		return
	}
	if counts, err := inspector.Counts(t.Context()); err != nil || len(counts) != 0 {
		t.Errorf("Counts %s: got %+v, error %v; want none", when, counts, err)
	}
}

// badRequests returns requests with one bad field each, by what is wrong.
func badRequests(good queue.ClaimRequest, field string, set map[string]func(r *queue.ClaimRequest)) map[string]queue.ClaimRequest {
	bad := make(map[string]queue.ClaimRequest)
	for what, f := range set {
		req := good
		f(&req)
		bad[field+" "+what] = req
	}
	return bad
}

// testFarTimes: a time at the end of the calendar (of its last day some databases keep the
// beginning only), and the longest Delay, are kept.
func testFarTimes(t *testing.T, h Harness) {
	last, delayed := newJob(), newJob()
	last.ScheduledAt = time.Date(9999, 12, 30, 23, 59, 59, 999_999_000, time.UTC)
	delayed.Delay = 100 * 365 * 24 * time.Hour
	enqueue(t, h, last, delayed)
	if jobs := claim(t, h, request(2)); len(jobs) != 0 {
		t.Errorf("Claim of jobs that are due in a century: got jobs %v, want none", ids(jobs))
	}
	inspector, ok := driver.As[driver.Inspector](h.Queue)
	if !ok {
		return
	}
	records, _, err := inspector.Jobs(t.Context(), queue.Filter{})
	if err != nil || len(records) != 2 {
		t.Fatalf("got %d jobs, error %v; want 2", len(records), err)
	}
	for _, r := range records {
		if r.ID == last.ID && !r.ScheduledAt.Equal(last.ScheduledAt) {
			t.Errorf("the last time: got %v, want %v", r.ScheduledAt, last.ScheduledAt)
		}
		if in := time.Until(r.ScheduledAt); r.ID == delayed.ID && (in > delayed.Delay || in < delayed.Delay-time.Hour) {
			t.Errorf("the longest Delay: due in %v, want %v", in, delayed.Delay)
		}
	}
}

// testHugeLimits: the highest limits of a claim and of Reclaim are no more than what there is.
func testHugeLimits(t *testing.T, h Harness) {
	enqueue(t, h, newJob(), newJob(), newJob())
	req := request(math.MaxInt)
	req.Ahead, req.Bytes = math.MaxInt-2, math.MaxInt
	if jobs := claim(t, h, req); len(jobs) != 3 {
		t.Errorf("Claim with the highest limits: got jobs %v, want 3", ids(jobs))
	}
	if reclaimer, ok := driver.As[driver.Reclaimer](h.Queue); ok {
		if jobs, err := reclaimer.Reclaim(t.Context(), math.MaxInt); err != nil || len(jobs) != 0 {
			t.Errorf("Reclaim with the highest limit: got jobs %v, error %v; want none", ids(jobs), err)
		}
		for _, limit := range []int{0, -1, math.MinInt} {
			_, err := reclaimer.Reclaim(t.Context(), limit)
			wantInvalid(t, fmt.Sprintf("Reclaim with limit %d", limit), err, "Limit")
		}
	}
}

func testBadClaims(t *testing.T, h Harness) {
	enqueue(t, h, newJob())
	check := func(field string, set map[string]func(r *queue.ClaimRequest)) {
		for what, req := range badRequests(request(1), field, set) {
			jobs, err := h.Queue.Claim(t.Context(), req)
			wantInvalid(t, "Claim with "+what, err, field)
			if len(jobs) != 0 {
				t.Errorf("Claim with %s: got jobs %v, want none", what, ids(jobs))
			}
		}
	}
	check("Queues", badQueues)
	check("Limit", map[string]func(r *queue.ClaimRequest){
		"0":          func(r *queue.ClaimRequest) { r.Limit = 0 },
		"-1":         func(r *queue.ClaimRequest) { r.Limit = -1 },
		"the lowest": func(r *queue.ClaimRequest) { r.Limit = math.MinInt },
	})
	leases, workers := make(map[string]func(r *queue.ClaimRequest)), make(map[string]func(r *queue.ClaimRequest))
	for _, lease := range badLeases {
		leases[lease.String()] = func(r *queue.ClaimRequest) { r.Lease = lease }
	}
	for what, name := range badNames {
		workers[what] = func(r *queue.ClaimRequest) { r.Worker = name }
	}
	check("Lease", leases)
	check("Worker", workers)
	check("Kinds", map[string]func(r *queue.ClaimRequest){
		"with NUL":   func(r *queue.ClaimRequest) { r.Kinds = []string{"k", "\x00"} },
		"with empty": func(r *queue.ClaimRequest) { r.Kinds = []string{""} },
	})
	if got := claimOne(t, h); got.Attempt != 1 {
		t.Errorf("claim after bad claims: got attempt %d, want 1", got.Attempt)
	}
}

var badQueues = map[string]func(r *queue.ClaimRequest){
	"none":           func(r *queue.ClaimRequest) { r.Queues = nil },
	"with empty":     func(r *queue.ClaimRequest) { r.Queues = []string{"q", ""} },
	"with NUL":       func(r *queue.ClaimRequest) { r.Queues = []string{"\x00", "q"} },
	"with 201 bytes": func(r *queue.ClaimRequest) { r.Queues = []string{strings.Repeat("q", 201)} },
}

var badLeases = []time.Duration{0, -1, -time.Hour, time.Microsecond, 366 * 24 * time.Hour, 1<<63 - 1}

func testBadLeases(t *testing.T, h Harness) {
	enqueue(t, h, newJob())
	job := claimOne(t, h)
	before, _ := lookUp(t, h, job.ID)
	for _, lease := range badLeases {
		_, _, err := h.Queue.Extend(t.Context(), lease, job)
		wantInvalid(t, fmt.Sprintf("Extend by %v", lease), err, "Lease")
		wantUnchanged(t, h, fmt.Sprintf("Extend by %v", lease), before)
	}
	wantHeld(t, h, "after bad leases", job)
}

func testBadOutcomes(t *testing.T, h Harness) {
	enqueue(t, h, newJobs(2, nil)...)
	held := claimAll(t, h, 2)
	good := queue.Outcome{Job: held[0], Action: queue.Done}
	for field, bad := range map[string]queue.Outcome{
		"Outcome.Job":    {Action: queue.Done},
		"Outcome.Action": {Job: held[1], Action: 200},
		"Outcome.Delay":  {Job: held[1], Action: queue.Retry, Delay: 200 * 365 * 24 * time.Hour},
	} {
		_, err := h.Queue.Settle(t.Context(), nil, good, bad)
		wantInvalid(t, fmt.Sprintf("Settle of a good outcome and one with a bad %s", field), err, field)
	}
	wantHeld(t, h, "after bad outcomes", held...)
}

func testBadRedrive(t *testing.T, h Harness) {
	editor, _ := driver.As[driver.Editor](h.Queue)
	n, err := editor.Redrive(t.Context(), nil, queue.Selection{})
	wantInvalid(t, "Redrive of nothing in particular", err, "Selection")
	if n != 0 {
		t.Errorf("Redrive of nothing in particular: got %d, want 0", n)
	}
	for _, text := range []string{"a\x00", "\xff"} {
		_, err := editor.Redrive(t.Context(), nil, queue.Selection{Queue: text})
		wantInvalid(t, fmt.Sprintf("Redrive of queue %q", text), err, "Queue")
		_, err = editor.Redrive(t.Context(), nil, queue.Selection{Kind: text})
		wantInvalid(t, fmt.Sprintf("Redrive of kind %q", text), err, "Kind")
	}
	for _, status := range []queue.Status{queue.StatusPending, queue.StatusRunning, queue.StatusCompleted, queue.StatusFailed, "asleep"} {
		_, err := editor.Redrive(t.Context(), nil, queue.Selection{Queue: "q", Status: status})
		wantInvalid(t, fmt.Sprintf("Redrive of %s jobs", status), err, "Selection.Status")
	}
}

func testBadFilter(t *testing.T, h Harness) {
	inspector, _ := driver.As[driver.Inspector](h.Queue)
	for _, limit := range []int{-1, 1001, math.MinInt, math.MaxInt32, math.MaxInt} {
		_, _, err := inspector.Jobs(t.Context(), queue.Filter{Limit: limit})
		wantInvalid(t, fmt.Sprintf("Jobs with Limit %d", limit), err, "Limit")
	}
	for _, attempts := range []int{-1, math.MaxInt} {
		_, _, err := inspector.Jobs(t.Context(), queue.Filter{MinAttempts: attempts})
		wantInvalid(t, fmt.Sprintf("Jobs with MinAttempts %d", attempts), err, "MinAttempts")
	}
	_, _, err := inspector.Jobs(t.Context(), queue.Filter{Status: "asleep' OR true --"})
	wantInvalid(t, "Jobs with a Status that there is not", err, "Status")
	for _, text := range []string{"a\x00", "\xff"} {
		for field, f := range map[string]queue.Filter{"Queue": {Queue: text}, "Kind": {Kind: text}, "Key": {Key: text}, "Group": {Group: text}} {
			_, _, err := inspector.Jobs(t.Context(), f)
			wantInvalid(t, fmt.Sprintf("Jobs with %s %q", field, text), err, field)
		}
	}
	for _, status := range []queue.Status{queue.StatusPending, queue.StatusCompleted, queue.StatusFailed, queue.StatusDead} {
		_, _, err := inspector.Jobs(t.Context(), queue.Filter{Status: status, Expired: true})
		wantInvalid(t, fmt.Sprintf("Jobs that are %s and Expired", status), err, "Expired")
	}
}

func testBadClaimTx(t *testing.T, h Harness) {
	claimer, _ := driver.As[driver.TxClaimer](h.Queue)
	enqueue(t, h, newJob())
	tx := begin(t, h)
	for what, req := range badRequests(queue.ClaimRequest{Queues: []string{"q"}}, "Queues", badQueues) {
		_, err := claimer.ClaimTx(t.Context(), tx, req)
		wantInvalid(t, "ClaimTx with "+what, err, "Queues")
	}
	_, err := claimer.ClaimTx(t.Context(), tx, queue.ClaimRequest{Queues: []string{"q"}, Kinds: []string{"\x00"}})
	wantInvalid(t, "ClaimTx with a kind with NUL", err, "Kinds")
	rollback(t, tx)
	claimOne(t, h)
}

func testBadJobInTx(t *testing.T, h Harness) {
	tx := begin(t, h)
	bad, good := newJob(), newJob()
	bad.Payload = json.RawMessage(`"\u0000"`)
	wantInvalid(t, "Enqueue of a bad payload in a transaction", h.Queue.Enqueue(t.Context(), tx, newJob(), bad), "Payload")
	enqueueIn(t, h, tx, good) // the transaction is as good as before
	commit(t, tx)
	wantIDs(t, "claim after the transaction", claimAll(t, h, 1), []*queue.Job{good})
}

// nilHandles are mistakes. A backend must not take them for its own handle.
var nilHandles = []queue.DB{(*sql.Tx)(nil), (*sql.DB)(nil), (*sql.Conn)(nil)}

func testNilHandles(t *testing.T, h Harness) {
	enqueue(t, h, newJob())
	held := claimOne(t, h)
	for _, db := range nilHandles {
		what := fmt.Sprintf("with a nil %T", db)
		wantInvalid(t, "Enqueue "+what, h.Queue.Enqueue(t.Context(), db, newJob()), "DB")
		_, err := h.Queue.Settle(t.Context(), db, queue.Outcome{Job: held})
		wantInvalid(t, "Settle "+what, err, "DB")
	}
	claimNone(t, h, "after nil handles")
	wantHeld(t, h, "after nil handles", held)
}

func testClaimWithoutTx(t *testing.T, h Harness) {
	claimer, _ := driver.As[driver.TxClaimer](h.Queue)
	j := newJob()
	enqueue(t, h, j)
	for _, db := range append(nilHandles, nil, new(sql.DB)) {
		_, err := claimer.ClaimTx(t.Context(), db, queue.ClaimRequest{Queues: []string{"q"}})
		wantInvalid(t, fmt.Sprintf("ClaimTx with %T", db), err, "DB")
	}
	wantIDs(t, "claim after ClaimTx without a transaction", claimAll(t, h, 1), []*queue.Job{j})
}
