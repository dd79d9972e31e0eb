package queue_test

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// TestRecordJSON: the names in a record's JSON are part of the API. Optional fields that are zero
// are left out.
func TestRecordJSON(t *testing.T) {
	at := func(second int) time.Time { return time.Date(2026, 1, 2, 3, 4, second, 0, time.UTC) }
	for _, c := range []struct {
		name   string
		record queue.Record
		want   string
	}{
		{"zero", queue.Record{}, `{"id":0,"queue":"","kind":"","payload":null,"priority":0,"max_attempts":0,"attempt":0,"status":"",` +
			`"updated_at":"0001-01-01T00:00:00Z"}`},
		{"pending", queue.Record{
			Job: queue.Job{
				ID: 1, Queue: "default", Kind: "k", Payload: []byte(`{"n":1}`), ScheduledAt: at(1), MaxAttempts: 5, CreatedAt: at(0),
			},
			Status: queue.StatusPending, UpdatedAt: at(0),
		}, `{"id":1,"queue":"default","kind":"k","payload":{"n":1},"priority":0,"scheduled_at":"2026-01-02T03:04:01Z","max_attempts":5,` +
			`"attempt":0,"created_at":"2026-01-02T03:04:00Z","status":"pending","updated_at":"2026-01-02T03:04:00Z"}`},
		{"full", queue.Record{
			Job: queue.Job{
				ID: 1, Queue: "q", Kind: "k", Payload: []byte(`[]`), Priority: -1, ScheduledAt: at(1), Delay: 2, MaxAttempts: 3, Key: "key",
				Headers: map[string]string{"a": "b"}, Attempt: 4, Fence: 5, Worker: "w", CreatedAt: at(6), LastError: "boom",
				Unreadable: errors.New("too long"), Duplicate: true,
			},
			Status: queue.StatusRunning, StartedAt: at(7), FinishedAt: at(8), LockedAt: at(9), LeaseEnds: at(10), RedrivenAt: at(11),
			Redrives: 12, UpdatedAt: at(13), History: []queue.Failure{
				{At: at(14), Attempt: 1, Took: 15},
				{At: at(16), Attempt: 2, Redrives: 3, Worker: "w", Error: "boom", Stack: "main.f()", Took: 17},
			},
		}, `{"id":1,"queue":"q","kind":"k","payload":[],"priority":-1,"scheduled_at":"2026-01-02T03:04:01Z","delay_ns":2,` +
			`"max_attempts":3,"key":"key","headers":{"a":"b"},"attempt":4,"fence":5,"worker":"w","created_at":"2026-01-02T03:04:06Z",` +
			`"last_error":"boom","duplicate":true,"status":"running","started_at":"2026-01-02T03:04:07Z",` +
			`"finished_at":"2026-01-02T03:04:08Z","locked_at":"2026-01-02T03:04:09Z","lease_ends":"2026-01-02T03:04:10Z",` +
			`"redriven_at":"2026-01-02T03:04:11Z","redrives":12,"history":[{"at":"2026-01-02T03:04:14Z","attempt":1,"took_ns":15},` +
			`{"at":"2026-01-02T03:04:16Z","attempt":2,"redrives":3,"worker":"w","error":"boom","stack":"main.f()","took_ns":17}],"updated_at":"2026-01-02T03:04:13Z"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := json.Marshal(c.record)
			if err != nil || string(got) != c.want {
				t.Fatalf("got  %s (%v)\nwant %s", got, err, c.want)
			}
			var back queue.Record
			if err := json.Unmarshal(got, &back); err != nil {
				t.Fatal(err)
			}
			want := c.record
			want.Unreadable = nil
			if want.Payload == nil {
				want.Payload = []byte("null")
			}
			if !reflect.DeepEqual(back, want) {
				t.Errorf("it is read as %+v\nwant          %+v", back, want)
			}
		})
	}
}

// TestAdminJSON: the names in the JSON of what an admin page shows are part of the API, too.
func TestAdminJSON(t *testing.T) {
	for _, c := range []struct {
		value any
		want  string
	}{
		{queue.StatusCount{Queue: "q", Status: queue.StatusDead, Jobs: 2, Exact: true}, `{"queue":"q","status":"dead","jobs":2,"exact":true}`},
		{driver.Backlog{Queue: "q", Age: time.Second}, `{"queue":"q","age_ns":1000000000}`},
		{queue.Event{Type: queue.EventStarted}, `{"type":"started","job":null}`},
		{queue.Event{Type: queue.EventRetried, Err: errors.New("boom"), Delay: 1, Took: 2},
			`{"type":"retried","job":null,"delay_ns":1,"took_ns":2,"error":"boom"}`},
		{driver.WorkerRecord{WorkerInfo: driver.WorkerInfo{Queues: []string{"q"}}}, `{"name":"","host":"","pid":0,"version":"","queues":["q"],` +
			`"concurrency":0,"busy":0,"waiting":0,"lease_ns":0,"grace_ns":0,"listens":false,"poll_ns":0,"started_at":"0001-01-01T00:00:00Z",` +
			`"seen_at":"0001-01-01T00:00:00Z","silent_ns":0}`},
		{driver.WorkerRecord{
			WorkerInfo: driver.WorkerInfo{
				Name: "w", Host: "h", PID: 1, Version: "v1.0.0", Queues: []string{"q"}, Kinds: []string{"k"}, Concurrency: 2, Busy: 3, Waiting: 4,
				Lease: 5, Grace: 6, Listens: true, Poll: 7, ClaimError: "boom",
				Refused: []driver.RefusedOutcome{{ID: 1, Error: "bad", Waited: 2}}, RefusedCount: 3,
			},
			ClaimedAt: time.Unix(0, 0).UTC(), DrainingAt: time.Unix(1, 0).UTC(), Silent: 8, Vanished: true,
		}, `{"name":"w","host":"h","pid":1,"version":"v1.0.0","queues":["q"],"kinds":["k"],"concurrency":2,"busy":3,"waiting":4,` +
			`"lease_ns":5,"grace_ns":6,"listens":true,"poll_ns":7,"claim_error":"boom","refused":[{"id":1,"error":"bad","waited_ns":2}],"refused_count":3,"started_at":"0001-01-01T00:00:00Z",` +
			`"claimed_at":"1970-01-01T00:00:00Z","draining_at":"1970-01-01T00:00:01Z","seen_at":"0001-01-01T00:00:00Z","silent_ns":8,` +
			`"vanished":true}`},
		{queue.StatsRecord{}, `{"at":"0001-01-01T00:00:00Z","done":0,"failed":0,"dead":0,"lost":0,"ran_ns":0,"waited_ns":0}`},
		{queue.StatsRecord{Queue: "q", Kind: "k", Stats: queue.Stats{Done: 1, Ran: 2, Waited: 3, RunTimes: queue.Histogram{1}, WaitTimes: queue.Histogram{0, 1}}},
			`{"at":"0001-01-01T00:00:00Z","queue":"q","kind":"k","done":1,"failed":0,"dead":0,"lost":0,"ran_ns":2,"waited_ns":3,` +
				`"run_times":[1],"wait_times":[0,1]}`},
		{driver.RunningJob{Worker: "w", ID: 1, Queue: "q", Kind: "k", Attempt: 2, Took: 3},
			`{"worker":"w","id":1,"queue":"q","kind":"k","attempt":2,"since":"0001-01-01T00:00:00Z","took_ns":3}`},
	} {
		if got, err := json.Marshal(c.value); err != nil || string(got) != c.want {
			t.Errorf("got  %s (%v)\nwant %s", got, err, c.want)
		}
	}
}

// TestFilterRunningFor: a filter by the length of a run is one for running jobs.
func TestFilterRunningFor(t *testing.T) {
	for _, status := range []queue.Status{"", queue.StatusRunning} {
		if f, err := (queue.Filter{RunningFor: 1, Status: status}).Checked(); err != nil || f.Status != queue.StatusRunning {
			t.Errorf("beside status %q: got %+v, error %v; want running", status, f, err)
		}
	}
	if f, err := (queue.Filter{}).Checked(); err != nil || f.Status != "" {
		t.Errorf("the zero filter: got %+v, error %v; want any status", f, err)
	}
	for f, want := range map[queue.Filter]string{
		{RunningFor: -time.Minute}:                            "queue: invalid RunningFor: -1m0s: at least 0",
		{RunningFor: -1, Status: queue.StatusDead}:            "queue: invalid RunningFor: -1ns: at least 0",
		{RunningFor: time.Minute, Status: queue.StatusDead}:   `queue: invalid RunningFor: beside Status "dead": only running jobs`,
		{RunningFor: time.Minute, Status: "ran", Limit: 1000}: `queue: invalid RunningFor: beside Status "ran": only running jobs`,
	} {
		if _, err := f.Checked(); err == nil || err.Error() != want {
			t.Errorf("%+v: got %v, want %s", f, err, want)
		}
	}
}

// TestFilterNext: the pages of a list end behind the lowest ID, also where IDs are 0 and below.
func TestFilterNext(t *testing.T) {
	ids := []int64{math.MaxInt64, math.MaxInt64 - 1, 2, 1, 0, -1, -2, math.MinInt64 + 1, math.MinInt64}
	f := queue.Filter{Limit: 1}
	for i, id := range ids {
		if to := f.UpTo(); id > to || i > 0 && ids[i-1] <= to {
			t.Errorf("behind job %d: Before %d lets IDs up to %d through, want job %d next", ids[max(i-1, 0)], f.Before, to, id)
		}
		f.Before = f.Next([]queue.Record{{Job: queue.Job{ID: id}}})
	}
	if f.Before != 0 {
		t.Errorf("behind the lowest ID: Before is %d", f.Before)
	}
}
