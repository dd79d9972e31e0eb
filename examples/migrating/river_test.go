package migrating

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/errandhq/errand/queue"
)

// TestRiverFields: whatever River knows of a job, errand's handler sees. The
// failed and the snoozed are River's own worker's doing.
func TestRiverFields(t *testing.T) {
	h := withRiver(t)
	later := time.Now().Add(time.Hour).Truncate(time.Second)
	plain := h.insert(t, "plain", 1, nil)
	scheduled := h.insert(t, "plain", 2, &river.InsertOpts{ScheduledAt: later})
	optioned := h.insert(t, "mail.send", 3, &river.InsertOpts{
		Queue: "mail", Priority: 4, MaxAttempts: 3, Tags: []string{"one", "two-2"},
		Metadata: []byte(`{"tenant":"acme","limits":{"n":1},"none":null}`),
	})
	unique := h.insert(t, "plain", 4, &river.InsertOpts{UniqueOpts: river.UniqueOpts{ByArgs: true}})
	failed := h.insert(t, "fails", 5, &river.InsertOpts{Queue: "failing"})
	h.start(t, "fails", "failing", func(_ context.Context, job *river.Job[numbered]) error {
		return fmt.Errorf("failure %d", job.Attempt)
	})(2)
	snoozed := h.insert(t, "snoozes", 6, &river.InsertOpts{Queue: "snoozing", MaxAttempts: 2})
	h.start(t, "snoozes", "snoozing", func(context.Context, *river.Job[numbered]) error { return river.JobSnooze(time.Hour) })(1)
	for id, want := range map[int64]rivertype.JobState{
		plain.ID: rivertype.JobStateAvailable, scheduled.ID: rivertype.JobStateScheduled,
		failed.ID: rivertype.JobStateRetryable, snoozed.ID: rivertype.JobStateScheduled,
	} {
		if got := h.get(t, id).State; got != want {
			t.Fatalf("River's job %d is %s, want %s", id, got, want)
		}
	}

	due := map[int64]time.Time{}
	for _, job := range []*rivertype.JobRow{plain, scheduled, optioned, unique, failed, snoozed} {
		due[job.ID] = h.get(t, job.ID).ScheduledAt
	}
	move(t, h.db, script(t, "river.sql")).check(t, report{"moved": 6})
	if n := count(t, h.db, `SELECT count(*) FROM river_job`); n != 0 {
		t.Errorf("River still has %d jobs, want 0", n)
	}
	for _, r := range jobs(t, backend(t, h.db)) {
		var id int64
		if _, err := fmt.Sscan(r.Headers["river.id"], &id); err != nil {
			t.Fatal(err)
		}
		if r.Status != queue.StatusPending || !r.ScheduledAt.Equal(due[id]) {
			t.Errorf("River's job %d is %s and due %v, want pending and due %v", id, r.Status, r.ScheduledAt, due[id])
		}
	}

	seen := workAll(t, h.db, "river.id", "default", "mail", "failing", "snoozing")
	for _, c := range []struct {
		name string
		was  *rivertype.JobRow
		want queue.Job
	}{
		{"plain", plain, queue.Job{Kind: "plain", Queue: "default", Payload: []byte(`{"n": 1}`), Attempt: 1, MaxAttempts: 25}},
		{"scheduled", scheduled, queue.Job{Kind: "plain", Queue: "default", Payload: []byte(`{"n": 2}`), Attempt: 1, MaxAttempts: 25}},
		{"optioned", optioned, queue.Job{
			Kind: "mail.send", Queue: "mail", Payload: []byte(`{"n": 3}`), Priority: 3, Attempt: 1, MaxAttempts: 3,
			Headers: map[string]string{"tenant": "acme", "limits": `{"n": 1}`, "none": "null", "river.tags": "one,two-2"},
		}},
		{"unique", unique, queue.Job{
			Kind: "plain", Queue: "default", Payload: []byte(`{"n": 4}`), Attempt: 1, MaxAttempts: 25,
			Key: "river:" + hex.EncodeToString(unique.UniqueKey),
		}},
		{"failed", failed, queue.Job{
			Kind: "fails", Queue: "failing", Payload: []byte(`{"n": 5}`), Attempt: 3, MaxAttempts: 25, LastError: "failure 2",
		}},
		{"snoozed", snoozed, queue.Job{
			Kind: "snoozes", Queue: "snoozing", Payload: []byte(`{"n": 6}`), Attempt: 1, MaxAttempts: 2,
			Headers: map[string]string{"snoozes": "1"},
		}},
	} {
		headers := map[string]string{"river.id": fmt.Sprint(c.was.ID)}
		maps.Copy(headers, c.want.Headers)
		c.want.Headers, c.want.CreatedAt = headers, c.was.CreatedAt
		sameJob(t, c.name, seen[headers["river.id"]], c.want)
	}
}

// TestRiverStays: what is not to be moved, or cannot be, is not touched. The states
// are River's own doing; what River's client would not insert is made by SQL.
func TestRiverStays(t *testing.T) {
	h := withRiver(t)
	h.insert(t, "parked", 1, &river.InsertOpts{Pending: true})
	h.insert(t, "done", 2, &river.InsertOpts{Queue: "done"})
	h.start(t, "done", "done", func(context.Context, *river.Job[numbered]) error { return nil })(1)
	h.insert(t, "given.up", 3, &river.InsertOpts{Queue: "given_up", MaxAttempts: 1})
	h.start(t, "given.up", "given_up", func(context.Context, *river.Job[numbered]) error { return errors.New("no") })(1)
	if _, err := h.JobCancel(t.Context(), h.insert(t, "cancelled", 4, nil).ID); err != nil {
		t.Fatal(err)
	}
	h.insert(t, "generic·kind", 5, nil)
	h.insert(t, "long.metadata", 6, &river.InsertOpts{Metadata: []byte(`{"a":"` + strings.Repeat("x", 64<<10) + `"}`)})
	for i, change := range []string{
		`queue = 'ünüsual'`,
		`args = to_jsonb(repeat('x', 1 << 20))`,
		`metadata = '[1]'`,
		`scheduled_at = 'infinity'`,
	} {
		exec(t, h.db, `UPDATE river_job SET `+change+` WHERE id = $1`, h.insert(t, "odd", 7+i, nil).ID)
	}
	before := h.rows(t)

	want := report{
		"left: pending": 1,
		"left: kind is not 1 to 200 printable ASCII bytes":          1,
		"left: queue is not 1 to 200 printable ASCII bytes":         1,
		"left: args are longer than 1 MiB":                          1,
		"left: metadata are not an object":                          1,
		"left: metadata are longer than 64 KiB":                     1,
		"left: scheduled_at is not between the years 1970 and 9999": 1,
	}
	move(t, h.db, script(t, "river.sql")).check(t, want)
	if after := h.rows(t); after != before {
		t.Errorf("river_job was changed:\n%s\nwant\n%s", after, before)
	}
	if n := len(jobs(t, backend(t, h.db))); n != 0 {
		t.Errorf("errand has %d jobs, want 0", n)
	}

	// What is mended moves the next time.
	exec(t, h.db, `UPDATE river_job SET state = 'available' WHERE state = 'pending'`)
	exec(t, h.db, `UPDATE river_job SET metadata = '{}' WHERE metadata = '[1]'`)
	delete(want, "left: pending")
	delete(want, "left: metadata are not an object")
	want["moved"] = 2
	move(t, h.db, script(t, "river.sql")).check(t, want)
}

// TestRiverUniqueKey: a second River job of the same key waits until the first,
// which has moved, has ended. Neither is lost.
func TestRiverUniqueKey(t *testing.T) {
	h := withRiver(t)
	opts := &river.InsertOpts{UniqueOpts: river.UniqueOpts{ByArgs: true}}
	h.insert(t, "plain", 1, opts)
	move(t, h.db, script(t, "river.sql")).check(t, report{"moved": 1})

	h.insert(t, "plain", 1, opts) // by somebody who still enqueues to River
	const held = "left: a live job in errand has its unique_key: run this again when that has ended"
	move(t, h.db, script(t, "river.sql")).check(t, report{held: 1})
	workAll(t, h.db, "river.id")
	move(t, h.db, script(t, "river.sql")).check(t, report{"moved": 1})
	if got := len(workAll(t, h.db, "river.id")); got != 1 {
		t.Errorf("%d jobs ran, want 1", got)
	}
}

// TestRiverUniqueKeyNotEnforced: a job that River lets another of its key stand
// beside takes no key along, and so both move. It is made retryable by SQL.
func TestRiverUniqueKeyNotEnforced(t *testing.T) {
	h := withRiver(t)
	opts := &river.InsertOpts{UniqueOpts: river.UniqueOpts{ByArgs: true, ByState: []rivertype.JobState{
		rivertype.JobStateAvailable, rivertype.JobStatePending, rivertype.JobStateRunning, rivertype.JobStateScheduled,
	}}}
	exec(t, h.db, `UPDATE river_job SET state = 'retryable' WHERE id = $1`, h.insert(t, "plain", 1, opts).ID)
	unique := h.insert(t, "plain", 1, opts)
	move(t, h.db, script(t, "river.sql")).check(t, report{"moved": 2})
	var keys []string
	for _, r := range jobs(t, backend(t, h.db)) {
		keys = append(keys, r.Key)
	}
	if want := "river:" + hex.EncodeToString(unique.UniqueKey); len(keys) != 2 || keys[0] != "" || keys[1] != want {
		t.Errorf("the keys are %q, want none and %q", keys, want)
	}
}
