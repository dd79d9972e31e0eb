package redis_test

import (
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/redis"
	"github.com/errandhq/errand/backend/redis/redistest"
	"github.com/errandhq/errand/queue"
)

// damages make the hash of a job unreadable, each with commands whose first argument is its key.
var damages = map[string][][]string{
	"is lost":                        {{"DEL"}},
	"has another type":               {{"DEL"}, {"SET", "x"}},
	"has no state":                   {{"HDEL", "s"}},
	"has a state that is no msgpack": {{"HSET", "s", "\xc1\xc1"}},
	"has a state that is a number":   {{"HSET", "s", "garbage"}},
	"has a state without fields":     {{"HSET", "s", "\x80"}},
	"has a status that is a table":   {{"HSET", "s", stateWith("\xa6status\x80", "\xa3max\x01")}},
	"has a status that is unknown":   {{"HSET", "s", stateWith("\xa6status\xa1x", "\xa3max\x01")}},
	"has a text for a number":        {{"HSET", "s", stateWith("\xa6status\xa7pending", "\xa3max\xa1x")}},
}

// stateWith returns a state in msgpack with those two fields, and others that each state has.
func stateWith(status, most string) string {
	return "\x86" + status + most + "\xa5queue\xa1q\xa4kind\xa1k\xa7created\x01\xa3due\xa8" + "12345678"
}

// TestBadJob: the hash of a job is damaged. All operations on its partition go on with the others,
// and the log names the job once a minute.
func TestBadJob(t *testing.T) {
	client := redistest.Open(t)
	for name, commands := range damages {
		t.Run(name, func(t *testing.T) {
			log := &records{}
			b := open(t, client, redis.Options{Partitions: 1, Logger: slog.New(log), Retention: queue.Retention{Completed: time.Nanosecond}})
			bad := badJobs(t, b)
			for _, id := range bad {
				damage(t, b, id, commands)
			}
			time.Sleep(5 * time.Millisecond) // until leases have expired
			checkOthers(t, b)
			if jobs, err := b.Reclaim(t.Context(), 100); err != nil || len(jobs) != 0 {
				t.Errorf("Reclaim: got %d jobs, error %v", len(jobs), err)
			}
			for place, id := range bad {
				if n := log.has("job=" + strconv.FormatInt(id, 10) + " "); n != 1 {
					t.Errorf("the log has the %s job %d times, want once: %q", place, n, log.lines)
				}
			}
		})
	}
}

// badJobs fills the queue "q" with a job in each place that is to be damaged, and returns those.
// Beside each there is another one with the number 2 as its payload.
func badJobs(t *testing.T, b *redis.Backend) map[string]int64 {
	t.Helper()
	ids := make(map[string]int64)
	add := func(place string, j queue.Job) {
		t.Helper()
		first, second := j, j
		first.Queue, first.Kind, first.Payload = "q", "k", []byte("1")
		second.Queue, second.Kind, second.Payload = "q", "k", []byte("2")
		if err := b.Enqueue(t.Context(), nil, &first, &second); err != nil {
			t.Fatal(err)
		}
		ids[place] = first.ID
	}
	claim := func() []*queue.Job {
		t.Helper()
		short := request(20)
		short.Lease = time.Millisecond
		jobs, err := b.Claim(t.Context(), short)
		if err != nil {
			t.Fatal(err)
		}
		return jobs
	}
	add("completed", queue.Job{})
	if _, err := b.Settle(t.Context(), nil, outcomesFor(claim())...); err != nil {
		t.Fatal(err)
	}
	add("running", queue.Job{Group: "g"})
	add("running ordered", queue.Job{Group: "running", Ordered: true})
	if n := len(claim()); n != 3 {
		t.Fatalf("%d jobs run, want 3", n)
	}
	add("pending", queue.Job{})
	add("delayed", queue.Job{Delay: time.Millisecond})
	add("pending ordered", queue.Job{Group: "pending", Ordered: true})
	return ids
}

// damage runs commands on the hash of a job.
func damage(t *testing.T, b *redis.Backend, id int64, commands [][]string) {
	t.Helper()
	client := redistest.Open(t)
	key := fmt.Sprintf("{%s:0}:j:%d", redis.NamespaceOf(b), id)
	for _, words := range commands {
		c := client.B().Arbitrary(words[0]).Keys(key).Args(words[1:]...).Build()
		if err := client.Do(t.Context(), c).Error(); err != nil {
			t.Fatalf("%q %s: %v", words, key, err)
		}
	}
}

// checkOthers runs each operation, and checks that it changes the jobs that are not damaged.
func checkOthers(t *testing.T, b *redis.Backend) {
	t.Helper()
	ctx := t.Context()
	if jobs, err := b.Reclaim(ctx, 100); err != nil || len(jobs) != 1 {
		t.Errorf("Reclaim: got %d jobs, error %v; want 1", len(jobs), err)
	}
	for range 3 { // a claim passes over the first of a line, and the next one takes the second
		jobs, err := b.Claim(ctx, request(100))
		if err != nil {
			t.Errorf("Claim: %v", err)
		}
		for _, j := range jobs {
			if string(j.Payload) != "2" {
				t.Errorf("Claim: got job %d with payload %s", j.ID, j.Payload)
			}
		}
	}
	check := func(what string, want, got int, err error) {
		t.Helper()
		if err != nil || got != want {
			t.Errorf("%s: got %d jobs, error %v; want %d", what, got, err, want)
		}
	}
	page, _, err := b.Jobs(ctx, queue.Filter{Status: queue.StatusRunning})
	check("Jobs that run", 5, len(page), err)
	page, _, err = b.Jobs(ctx, queue.Filter{})
	check("Jobs", 6, len(page), err)
	held := slices.Collect(func(yield func(*queue.Job) bool) {
		for _, rec := range page {
			if j := rec.Job; rec.Status == queue.StatusRunning {
				j.Fence, j.Worker = rec.Fence, rec.Worker
				if !yield(&j) {
					return
				}
			}
		}
	})
	lost, _, err := b.Extend(ctx, time.Minute, held...)
	check("Extend: lost", 0, len(lost), err)
	outcomes := outcomesFor(held)
	for i := range outcomes {
		outcomes[i].Action, outcomes[i].Err = queue.Dead, fmt.Errorf("no")
	}
	lost, err = b.Settle(ctx, nil, outcomes...)
	check("Settle: lost", 0, len(lost), err)
	which := queue.Selection{Queue: "q", Kind: "k"}
	n, err := b.Redrive(ctx, nil, which)
	check("Redrive", 5, n, err)
	n, err = b.Cancel(ctx, nil, which)
	check("Cancel", 5, n, err)
	_, err = b.Backlogs(ctx)
	check("Backlogs", 0, 0, err)
	n, _, err = b.Prune(ctx) // the damaged one counts
	check("Prune", 2, n, err)
	n, err = b.Delete(ctx, nil, which)
	check("Delete", 5, n, err)
}

// TestBadJobKey: a job that cannot be read keeps no other one from its key, neither a new one nor
// one that is redriven or edited into its queue.
func TestBadJobKey(t *testing.T) {
	b := open(t, redistest.Open(t), redis.Options{Partitions: 1})
	ctx := t.Context()
	add := func(name, key string) int64 {
		t.Helper()
		j := &queue.Job{Queue: name, Kind: "k", Payload: []byte("1"), Key: key}
		if err := b.Enqueue(ctx, nil, j); err != nil || j.Duplicate {
			t.Fatalf("Enqueue with key %s: a duplicate %v, error %v", key, j.Duplicate, err)
		}
		return j.ID
	}
	ended := add("q", "redrive")
	if n, err := b.Cancel(ctx, nil, queue.Selection{IDs: []int64{ended}}); err != nil || n != 1 {
		t.Fatalf("Cancel: got %d jobs, error %v", n, err)
	}
	moved := add("other", "edit")
	for _, key := range []string{"new", "redrive", "edit"} {
		damage(t, b, add("q", key), [][]string{{"HSET", "s", "garbage"}})
	}
	add("q", "new")
	if n, err := b.Redrive(ctx, nil, queue.Selection{IDs: []int64{ended}, Status: queue.StatusCancelled}); err != nil || n != 1 {
		t.Errorf("Redrive: got %d jobs, error %v; want 1", n, err)
	}
	if n, err := b.Edit(ctx, nil, queue.Selection{IDs: []int64{moved}}, queue.JobChange{Queue: "q"}); err != nil || n != 1 {
		t.Errorf("Edit: got %d jobs, error %v; want 1", n, err)
	}
}

// TestBadPart: the payload, the headers or the failures of a job cannot be read. A job without a
// payload is claimed with the reason, so its worker ends it. One without failures goes on.
func TestBadPart(t *testing.T) {
	client := redistest.Open(t)
	for name, c := range map[string]struct {
		commands     [][]string
		isUnreadable bool
	}{
		"no payload":   {[][]string{{"HDEL", "p"}}, true},
		"bad headers":  {[][]string{{"HSET", "h", "garbage"}}, true},
		"bad failures": {[][]string{{"HSET", "f", "garbage"}}, false},
		"odd failures": {[][]string{{"HSET", "f", "\x92\x01\x02"}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := open(t, client, redis.Options{Partitions: 1})
			jobs := newJobs(2)
			if err := b.Enqueue(t.Context(), nil, jobs...); err != nil {
				t.Fatal(err)
			}
			damage(t, b, jobs[0].ID, c.commands)
			claimed := wantClaim(t, b, 2)
			if err := claimed[0].Unreadable; (err != nil) != c.isUnreadable {
				t.Errorf("the job is unreadable: %v, want %v", err, c.isUnreadable)
			}
			outcomes := outcomesFor(claimed)
			for i := range outcomes {
				outcomes[i].Action, outcomes[i].Err = queue.Dead, fmt.Errorf("no")
			}
			if lost, err := b.Settle(t.Context(), nil, outcomes...); err != nil || len(lost) > 0 {
				t.Errorf("Settle: lost %d, error %v", len(lost), err)
			}
			if rec, ok, err := b.Job(t.Context(), jobs[0].ID); err != nil || !ok || len(rec.History) != 1 {
				t.Errorf("Job: found %v with %d failures, error %v; want 1", ok, len(rec.History), err)
			}
		})
	}
}
