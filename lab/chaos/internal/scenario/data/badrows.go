package data

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/errandhq/errand/lab/chaos/internal/child"
	"github.com/errandhq/errand/lab/chaos/internal/harness"
	"github.com/errandhq/errand/lab/chaos/internal/peer"
	"github.com/errandhq/errand/lab/chaos/internal/scenario"
)

var badRows = scenario.Scenario{
	Number: 25,
	Name:   "badrows",
	What:   "rows at the head that errand would not have written: times at infinity, attempts at the end of an integer, corrupt payloads, in full also payloads of a gigabyte",
	Run:    workBesideBadRows,
}

// oddities are the columns and values of odd rows that can still be run.
var oddities = [][2]string{
	{"created_at", "'infinity'"}, {"created_at", "'-infinity'"}, {"created_at", "'4000-01-01 BC'"}, {"scheduled_at", "'-infinity'"},
	{"attempts, max_attempts", "2147483647, 2147483647"}, {"attempts, max_attempts", "-2147483648, -2147483648"}, {"headers", "'[1, 2]'"},
	{"updated_at", "'infinity'"}, {"locked_at, locked_until", "'-infinity', 'infinity'"}, {"last_error", "repeat('x', 1000000)"},
}

const (
	// Odd rows have the numbers from firstOdd on, unreadable ones those from firstUnreadable.
	firstOdd        = 1_000_000
	firstUnreadable = 2_000_000
	// corruptPayload is a payload as a bad disk leaves it: a value in it is of no kind that there is.
	// asBytes makes it possible.
	corruptPayload = `(SELECT set_byte(b, length(b) - 1, 0)::jsonb
		FROM (SELECT jsonb_build_object('number', %d, 'unreadable', jsonb_build_array())::bytea AS b) AS valid)`
	asBytes = `CREATE CAST (jsonb AS bytea) WITHOUT FUNCTION; CREATE CAST (bytea AS jsonb) WITHOUT FUNCTION`
	// hugePayload is a payload that the server cannot print in a gigabyte. Where memory is slow it
	// takes up to 20 s to find that, each time, and a worker minutes to give the job up.
	hugePayload = `(SELECT jsonb_build_object('number', %d, 'x', jsonb_agg('1e131000'::numeric)) FROM generate_series(1, 9000))`
)

// withoutChecks switches the checks of the table off, so that the odd rows can be written.
const withoutChecks = `ALTER TABLE errand.jobs DISABLE TRIGGER USER;
	ALTER DOMAIN errand.job_name DROP CONSTRAINT jobs_values_check;
	ALTER DOMAIN errand.due_time DROP CONSTRAINT jobs_values_check;
	ALTER DOMAIN errand.attempt_limit DROP CONSTRAINT jobs_values_check`

func workBesideBadRows(ctx context.Context, h *harness.Harness) error {
	good := harness.Size(h, 10_000, 500)
	unreadable := slices.Concat(slices.Repeat([]string{corruptPayload}, 5), harness.Size(h, slices.Repeat([]string{hugePayload}, 5), nil))
	for _, statement := range []string{withoutChecks, asBytes} {
		if err := h.Exec(ctx, statement); err != nil {
			return err
		}
	}
	if err := insertBadRows(ctx, h, unreadable); err != nil {
		return err
	}
	numbers := make([]int, good)
	for i := range numbers {
		numbers[i] = 1 + i
	}
	if err := h.Enqueue(ctx, peer.Plain, numbers...); err != nil {
		return err
	}
	crew, err := h.Crew(2, child.Work{Worker: peer.Worker{Concurrency: 8, Lease: 30 * time.Second}, Most: 5 * time.Millisecond})
	if err != nil {
		return err
	}
	f, _, err := crew.Finish(ctx)
	if err != nil {
		return err
	}
	h.CheckDuplicates(f)
	h.Row.RecoveryMS = -1
	return checkBadRows(ctx, h, len(unreadable))
}

func insertBadRows(ctx context.Context, h *harness.Harness, unreadable []string) error {
	insert := func(number int, columns, values string) error {
		err := h.Exec(ctx, fmt.Sprintf(`INSERT INTO errand.jobs (kind, priority, %s) VALUES ('%s', -1000, %s)`, columns, peer.Plain, values))
		if err != nil {
			return err
		}
		return h.RecordAcks(number)
	}
	for i, payload := range unreadable {
		if err := insert(firstUnreadable+i, "payload", fmt.Sprintf(payload, firstUnreadable+i)); err != nil {
			return err
		}
	}
	for i, o := range oddities {
		payload := fmt.Sprintf(`jsonb_build_object('number', %d)`, firstOdd+i)
		if err := insert(firstOdd+i, o[0]+", payload", o[1]+", "+payload); err != nil {
			return err
		}
	}
	return nil
}

// checkBadRows demands that exactly the unreadable jobs are dead, with that reason.
func checkBadRows(ctx context.Context, h *harness.Harness, want int) error {
	jobs, err := h.Peer.Jobs(ctx, "")
	if err != nil {
		return err
	}
	var wrong []string
	dead := 0
	for _, j := range jobs {
		unreadable := j.Number >= firstUnreadable
		if unreadable && j.State == peer.GivenUp && strings.Contains(j.Reason, "cannot be read") {
			dead++
		} else if unreadable || j.State != peer.Ended {
			wrong = append(wrong, fmt.Sprintf("job %d: %s, %q", j.Number, j.State, j.Reason))
		}
	}
	h.Row.Check(dead == want, "rows that cannot be read dead with a reason: all", "%d of %d", dead, want)
	h.Row.Check(len(wrong) == 0, "others that are not done: 0", "%s", harness.FirstFew(wrong))
	return nil
}
