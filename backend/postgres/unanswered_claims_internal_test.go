package postgres

import (
	"database/sql"
	"slices"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"github.com/errandhq/errand/queue"
)

// TestFailedReleaseKeepsDelay: the release of a job with a slow payload keeps its delay if it
// fails. Without the delay the job would stand at the head of its queue again.
func TestFailedReleaseKeepsDelay(t *testing.T) {
	db, err := sql.Open("pgx", "postgres://127.0.0.1:1/none") // no server
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	b, err := New(db, Options{})
	if err != nil {
		t.Fatal(err)
	}
	job := &queue.Job{ID: 1, Worker: "w", Fence: 1}
	b.release(t.Context(), queue.Outcome{Job: job, Action: queue.Release, Delay: time.Minute})
	failed, _ := b.unansweredClaims.takeRetries(queue.ClaimRequest{Worker: "w"})
	if len(failed) != 1 || failed[0].Job != job || failed[0].Delay != time.Minute {
		t.Errorf("to be settled again: %+v, want the release with its delay of a minute", failed)
	}
}

// TestAnsweredFences: all fences of an answered claim are noted. Its jobs have several if the
// sequence was set back; those that are not noted would be taken from the worker.
func TestAnsweredFences(t *testing.T) {
	var c unansweredClaims
	req := queue.ClaimRequest{Worker: "w", Lease: time.Minute}
	sent := c.begin(req)
	sent.noteEnd(nil, queue.ErrUnknown)
	c.noteAnswered("w", []*queue.Job{{Fence: 8}, {Fence: 4}, {Fence: 4}})
	_, u := c.takeRetries(req)
	if u == nil || !slices.Equal(u.answered, []int64{8, 4}) || c.begin(req).after != 8 {
		t.Errorf("noted %+v, last fence %d; want the fences 8 and 4, and 8 as the last", u, c.begin(req).after)
	}
}
