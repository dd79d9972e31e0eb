package postgres_test

import (
	"database/sql"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/queue"
)

// rules are jobs that Go's Enqueue and the SQL function accept, where bad is "", or refuse by the
// field of that name.
var rules = []struct {
	name string
	bad  string
	job  queue.Job
}{
	{"plain", "", queue.Job{}},
	{"queue of 200", "", queue.Job{Queue: strings.Repeat("q", 200)}},
	{"queue of 201", "Queue", queue.Job{Queue: strings.Repeat("q", 201)}},
	{"queue in two lines", "Queue", queue.Job{Queue: "a\n"}},
	{"queue beyond ASCII", "Queue", queue.Job{Queue: "é"}},
	{"kind of 200", "", queue.Job{Kind: strings.Repeat("~", 200)}},
	{"kind of 201", "Kind", queue.Job{Kind: strings.Repeat("k", 201)}},
	{"kind with DEL", "Kind", queue.Job{Kind: "a\x7f"}},

	{"payload of 1 MiB", "", withPayload(`"` + strings.Repeat("x", 1<<20-2) + `"`)},
	{"payload of 1 MiB and one", "Payload", withPayload(`"` + strings.Repeat("x", 1<<20-1) + `"`)},
	{"payload of 1 MiB of two bytes a character", "", withPayload(`"` + strings.Repeat("é", 1<<19-1) + `"`)},
	{"payload of 1 MiB of numbers", "", withPayload("[" + strings.Repeat("1,", 1<<19-2) + "11]")},
	{"payload of 1 MiB and one of numbers", "Payload", withPayload("[" + strings.Repeat("1,", 1<<19-2) + "111]")},
	{"payload of 1 MiB of strings with spaces", "Payload", withPayload("[" + strings.Repeat(`", , , ",`, 120_000) + "1]")},
	{"payload of 1 MiB of pairs", "", withPayload(pairs(80_000))},
	{"payload of 3 MiB", "Payload", withPayload(`"` + strings.Repeat("x", 3<<20) + `"`)},
	{"arrays of 1000 levels", "", withPayload(strings.Repeat("[", 1000) + strings.Repeat("]", 1000))},
	{"arrays of 1001 levels", "Payload", withPayload(strings.Repeat("[", 1001) + strings.Repeat("]", 1001))},
	{"arrays of 1500 levels", "Payload", withPayload(strings.Repeat("[", 1500) + "1" + strings.Repeat("]", 1500))},
	{"objects of 1000 levels", "", withPayload(strings.Repeat(`{"a":`, 1000) + "1" + strings.Repeat("}", 1000))},
	{"objects of 1001 levels", "Payload", withPayload(strings.Repeat(`{"a":`, 1001) + "1" + strings.Repeat("}", 1001))},
	{"number of 4000 digits", "", withPayload(strings.Repeat("9", 4000))},
	{"number of 4001 digits", "Payload", withPayload("[" + strings.Repeat("9", 4001) + "]")},
	{"number of 5000 digits", "Payload", withPayload(`{"a":` + strings.Repeat("7", 5000) + "}")},
	{"number of 4000 digits with a point", "", withPayload("-1." + strings.Repeat("9", 3997))},
	{"number of 4500 digits with a point", "Payload", withPayload("1." + strings.Repeat("9", 4500))},
	{"digits in a string", "", withPayload(`"\"` + strings.Repeat("9", 5000) + `"`)},
	{"1e4000", "", withPayload("1e4000")},
	{"-9.99e4000", "", withPayload("[-9.99e4000]")},
	{"1e4001", "Payload", withPayload("1e4001")},
	{"10e4000", "Payload", withPayload("10e4000")},
	{"1e-4000", "", withPayload("1e-4000")},
	{"1e-4001", "Payload", withPayload("1e-4001")},
	{"0.1e-4000", "Payload", withPayload("0.1e-4000")},
	{"1e131000", "Payload", withPayload("[1e131000,1e131000]")},
	{"NUL in a string", "Payload", withPayload(`"\u0000"`)},
	{"unpaired surrogate", "Payload", withPayload(`"\ud800"`)},
	{"no JSON", "Payload", withPayload(`{`)},

	{"delay of 100 years of 365 days", "", queue.Job{Delay: 36500 * 24 * time.Hour}},
	{"delay of a microsecond more", "Delay", queue.Job{Delay: 36500*24*time.Hour + time.Microsecond}},
	{"delay below 0", "Delay", queue.Job{Delay: -time.Microsecond}},
	{"delay and due time", "Delay", queue.Job{Delay: time.Second, ScheduledAt: time.Now()}},
	{"due at the end of 9999", "", queue.Job{ScheduledAt: time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)}},
	{"due in 10000", "ScheduledAt", queue.Job{ScheduledAt: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}},
	{"due in 1970", "", queue.Job{ScheduledAt: time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC)}},
	{"due in 1969", "ScheduledAt", queue.Job{ScheduledAt: time.Date(1969, 12, 31, 23, 59, 59, 0, time.UTC)}},
	{"a million attempts", "", queue.Job{MaxAttempts: 1_000_000}},
	{"more attempts", "MaxAttempts", queue.Job{MaxAttempts: 1_000_001}},
	{"attempts below 0", "MaxAttempts", queue.Job{MaxAttempts: -1}},
	{"key of 500 bytes", "", queue.Job{Key: strings.Repeat("é", 250)}},
	{"key of 501 bytes", "Key", queue.Job{Key: strings.Repeat("k", 501)}},
	{"headers of 64 KiB", "", queue.Job{Headers: map[string]string{"a": strings.Repeat(`"`, 1<<16-1)}}},
	{"headers of 64 KiB and one", "Headers", queue.Job{Headers: map[string]string{"a": strings.Repeat("x", 1<<16)}}},
	{"many short headers", "", queue.Job{Headers: shortHeaders(16_000)}},
	{"no headers", "", queue.Job{Headers: map[string]string{}}},
}

func withPayload(text string) queue.Job { return queue.Job{Payload: json.RawMessage(text)} }

// pairs is an object of n members, whose text is 12 bytes for each.
func pairs(n int) string {
	var text strings.Builder
	text.WriteByte('{')
	for i := range n {
		if i > 0 {
			text.WriteByte(',')
		}
		name, _ := json.Marshal(strings.Repeat("0", 8-len(itoa(i))) + itoa(i))
		text.Write(name)
		text.WriteString(":1")
	}
	text.WriteByte('}')
	return text.String()
}

func itoa(i int) string {
	text, _ := json.Marshal(i)
	return string(text)
}

func shortHeaders(n int) map[string]string {
	h := make(map[string]string, n)
	for i := range n {
		h[string(rune(0x400+i%1000))+string(rune(0x400+i/1000))] = ""
	}
	return h
}

// TestRulesAreOne: Go's Enqueue and the SQL function accept the same jobs, and refuse the others
// with the name of the same field.
func TestRulesAreOne(t *testing.T) {
	extent.Long(t)
	t.Parallel()
	db, q := fresh(t, postgres.Options{})
	field := strings.NewReplacer("scheduledat", "scheduled_at", "maxattempts", "max_attempts", "key", "job_key")
	for _, c := range rules {
		t.Run(c.name, func(t *testing.T) {
			job := c.job
			if job.Kind == "" {
				job.Kind = "test"
			}
			tx, err := db.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer tx.Rollback()
			err = q.Enqueue(t.Context(), tx, &job)
			var bad *queue.InvalidError
			if got := errors.As(err, &bad); got != (c.bad != "") || err != nil && (!got || bad.Field != c.bad) {
				t.Errorf("Go: error %.200v, want it to name %q", err, c.bad)
			}
			if err := tx.Rollback(); err != nil { // which holds the key
				t.Fatal(err)
			}
			err = enqueueBySQL(t, db, &job)
			if (err == nil) != (c.bad == "") {
				t.Errorf("SQL: error %.200v, want it to name %q", err, c.bad)
			}
			noJSON := strings.HasPrefix(sqlState(err), "22P") // the server says so, before the function is called
			if name := field.Replace(strings.ToLower(c.bad)); err != nil && !noJSON && !strings.Contains(err.Error(), "errand: invalid "+name) {
				t.Errorf("SQL: error %.200v, want it to name %s", err, name)
			}
		})
	}
}

// enqueueBySQL calls the SQL function with the fields of the job, and rolls back.
func enqueueBySQL(t *testing.T, db *sql.DB, job *queue.Job) error {
	t.Helper()
	var due, delay, payload, headers, most, key any
	if !job.ScheduledAt.IsZero() {
		due = job.ScheduledAt.Format("2006-01-02T15:04:05.999999Z07:00")
	}
	if job.Delay != 0 {
		delay = job.Delay.Microseconds()
	}
	if job.Payload != nil {
		payload = string(job.Payload)
	}
	if job.Headers != nil {
		text, err := json.Marshal(job.Headers)
		if err != nil {
			t.Fatal(err)
		}
		headers = string(text)
	}
	if job.MaxAttempts != 0 {
		most = job.MaxAttempts
	}
	if job.Key != "" {
		key = job.Key
	}
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	_, err = tx.ExecContext(t.Context(), `SELECT errand.enqueue($1::text, $2::text, $3::text::jsonb, $4::integer,
		$5::bigint * interval '1 microsecond', $6::text::timestamptz, $7::integer, $8::text, $9::text::jsonb)`,
		orDefault(job.Queue), job.Kind, payload, job.Priority, delay, due, most, key, headers)
	return err
}

func orDefault(name string) string {
	if name == "" {
		return queue.DefaultQueue
	}
	return name
}
