package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/errandhq/errand/backend/dburl"
	"github.com/errandhq/errand/cmd/errand/internal/clitest"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// seed fills the script's database: seed life|hostile|below|behind
func seed(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: seed life|hostile|below|behind")
	}
	d, err := dburl.Open(ts.Getenv("DATABASE_URL"), dburl.Options{})
	ts.Check(err)
	defer d.Close()
	ctx := context.Background()
	ts.Check(d.Migrate(ctx))
	switch args[0] {
	case "life":
		ts.Check(seedLife(ctx, d))
	case "hostile":
		ts.Check(seedHostile(ctx, d))
	case "below":
		ts.Check(seedLife(ctx, d))
		_, err := d.DB.ExecContext(ctx, fmt.Sprintf("UPDATE %s SET id = -7 WHERE status = 'dead'", jobsTable(d)))
		ts.Check(err)
	case "behind": // of PostgreSQL
		ts.Check(seedLife(ctx, d))
		_, err := d.DB.ExecContext(ctx, `SELECT setval('errand.jobs_id_seq', 1, false)`)
		ts.Check(err)
	default:
		ts.Fatalf("no seed %s", args[0])
	}
}

// seedLife makes a job of each status: 1 completed, 2 dead, 3 cancelled, 4 running, 5 pending after
// a failure, 6 to 25 pending.
func seedLife(ctx context.Context, d *dburl.Database) error {
	for range 5 {
		if err := d.Queue.Enqueue(ctx, nil, &queue.Job{Kind: "email.welcome", Payload: json.RawMessage(`{"user":1}`)}); err != nil {
			return err
		}
	}
	canceller, _ := driver.As[driver.Canceller](d.Queue)
	if _, err := canceller.Cancel(ctx, nil, queue.Selection{IDs: []int64{3}}); err != nil {
		return err
	}
	jobs, err := clitest.Claim(ctx, d, 4)
	if err != nil {
		return err
	}
	failure := errors.New("the server said 503")
	_, err = d.Queue.Settle(ctx, nil, queue.Outcome{Job: jobs[0], Action: queue.Done}, queue.Outcome{Job: jobs[1], Action: queue.Dead, Err: failure},
		queue.Outcome{Job: jobs[3], Action: queue.Retry, Err: failure, Delay: time.Hour})
	if err != nil {
		return err
	}
	var more []*queue.Job
	for range 20 {
		more = append(more, &queue.Job{Kind: "report", Queue: "slow", Group: "acme", Delay: time.Hour})
	}
	return d.Queue.Enqueue(ctx, nil, more...)
}

// evil changes a terminal's colour and title, hides text, and turns its order round.
const evil = "\x1b[31mred\x1b]0;title\x07 \x7f\u0085\u009b2J\u202eesrever\u2066\u200b\u2028\U000e0041\r\nnext"

// seedHostile makes jobs whose texts attack a terminal, in each field: 1 running, 2 dead.
func seedHostile(ctx context.Context, d *dburl.Database) error {
	value, err := json.Marshal(evil)
	if err != nil {
		return err
	}
	for range 2 {
		job := &queue.Job{Kind: "evil", Payload: value, Key: evil, Group: evil, Headers: map[string]string{evil: evil}, OnDuplicate: queue.Replace}
		if err := d.Queue.Enqueue(ctx, nil, job); err != nil {
			return err
		}
		claimed, err := clitest.Claim(ctx, d, 1)
		if err != nil {
			return err
		}
		if job.ID == 2 {
			_, err = d.Queue.Settle(ctx, nil, queue.Outcome{Job: claimed[0], Action: queue.Dead, Err: errors.New(evil)})
		}
		if err != nil {
			return err
		}
	}
	ruler, _ := driver.As[driver.Ruler](d.Queue)
	if err := ruler.SetRules(ctx, nil, queue.Rule{Queue: "limited", Running: 5}, queue.Rule{Queue: "limited", Group: evil, PerGroup: 2, Paused: true}); err != nil {
		return err
	}
	scheduler, _ := driver.As[driver.Scheduler](d.Queue)
	nightly := queue.Schedule{Name: "nightly", Spec: "0 3 * * *", Job: &queue.Job{Kind: "report", Payload: value, Key: evil, Group: evil}}
	if err := scheduler.SetSchedules(ctx, nil, nightly); err != nil {
		return err
	}
	// What foreign SQL may write beyond that.
	const update = `UPDATE %s SET kind = CAST($1 AS text), queue = CAST($1 AS text), locked_by = CAST($1 AS text)`
	_, err = d.DB.ExecContext(ctx, fmt.Sprintf(update, jobsTable(d)), evil)
	return err
}

// jobsTable returns the name of the table of jobs.
func jobsTable(d *dburl.Database) string {
	if d.Scheme == dburl.SQLite {
		return "errand_jobs"
	}
	return "errand.jobs"
}
