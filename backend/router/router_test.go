package router_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/errandhq/errand/backend/memory"
	"github.com/errandhq/errand/backend/router"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// TestNew: what cannot work is said.
func TestNew(t *testing.T) {
	a, b, c := memory.New(memory.Options{}), memory.New(memory.Options{}), memory.New(memory.Options{})
	for name, bad := range map[string]struct {
		routes router.Routes
		order  []queue.Queue
	}{
		"Routes: no backend for":         {router.Routes{"clicks": b}, nil},
		"Routes: the backend of":         {router.Routes{"*": a, "clicks": nil}, nil},
		"Routes: no backend for \"*\"":   {router.Routes{"*": (*memory.Queue)(nil)}, nil},
		"that is not nil":                {router.Routes{"*": a, "clicks": (*memory.Queue)(nil)}, nil},
		"Order: place 1":                 {router.Routes{"*": a}, []queue.Queue{a, (*memory.Queue)(nil)}},
		"Routes: \"\"":                   {router.Routes{"*": a, "": b}, nil},
		"Routes: \"errand-outbox\"":      {router.Routes{"*": a, router.Outbox: b}, nil},
		"Queue: byte 0xc3":               {router.Routes{"*": a, "ä": b}, nil},
		"Order: nil, with 3 backends":    {router.Routes{"*": a, "b": b, "c": c}, nil},
		"Order: a backend of Routes":     {router.Routes{"*": a, "b": b, "c": c}, []queue.Queue{a, c}},
		"Order: must begin":              {router.Routes{"*": a, "b": b}, []queue.Queue{b, a}},
		"Order: place 1: nil, not":       {router.Routes{"*": a}, []queue.Queue{a, a}},
		"Order: must begin with the bac": {router.Routes{"*": a}, []queue.Queue{}},
	} {
		_, err := router.New(bad.routes, router.Options{Order: bad.order})
		if _, ok := errors.AsType[*queue.InvalidError](err); !ok || !strings.Contains(err.Error(), name) {
			t.Errorf("got %v, want an InvalidError with %q", err, name)
		}
	}
	if _, err := router.New(router.Routes{"*": a, "b": b, "c": c, "d": c}, router.Options{Order: []queue.Queue{a, c, b}}); err != nil {
		t.Error(err)
	}
}

// TestIDs: an ID names its backend in every call that takes one.
func TestIDs(t *testing.T) {
	q := newTwo(t)
	jobs := []*queue.Job{job("mail", 1), job("clicks", 2), job("clicks", 3)}
	enqueue(t, q, nil, jobs...)
	for i, want := range []int64{1, idSpan + 1, idSpan + 2} {
		if jobs[i].ID != want {
			t.Errorf("ID of job %d: got %d, want %d", i, jobs[i].ID, want)
		}
		if r, ok, err := q.Job(t.Context(), want); err != nil || !ok || r.ID != want || r.Queue != jobs[i].Queue {
			t.Errorf("Job(%d): got %+v, %v, error %v", want, r, ok, err)
		}
	}
	if n, err := q.Cancel(t.Context(), nil, queue.Selection{IDs: []int64{1, idSpan + 2, idSpan + 9, 5 * idSpan}}); n != 2 || err != nil {
		t.Errorf("Cancel of a job in each backend: got %d, error %v", n, err)
	}
	held := claim(t, q, 10, "mail", "clicks")
	if len(held) != 1 || held[0].ID != idSpan+1 {
		t.Fatalf("what is left: got %v", held)
	}
	nowhere := *held[0]
	nowhere.ID = 7*idSpan + 1
	lost, err := q.Settle(t.Context(), nil, queue.Outcome{Job: &nowhere}, queue.Outcome{Job: held[0]})
	if err != nil || len(lost) != 1 || lost[0] != &nowhere {
		t.Errorf("Settle: lost %v, error %v; want the job of no backend", lost, err)
	}
	wantPages(t, q.Queue, "[1000000000000000002 1000000000000000001 1]")
}

// wantPages lists all jobs, one a page, and checks their IDs.
func wantPages(t *testing.T, q *router.Queue, want string) {
	t.Helper()
	ids := []int64{}
	for before := int64(0); ; {
		page, next, err := q.Jobs(t.Context(), queue.Filter{Limit: 1, Before: before})
		if err != nil || len(ids) > 9 {
			t.Fatalf("Jobs before %d: %v after %v", before, err, ids)
		}
		for _, r := range page {
			ids = append(ids, r.ID)
		}
		if before = next; next == 0 {
			break
		}
	}
	if fmt.Sprint(ids) != want {
		t.Errorf("pages of all jobs: got %v, want %v", ids, want)
	}
}

// TestClaimOrder: jobs come in the order of the queues, whatever their backends, and no more than
// the limit.
func TestClaimOrder(t *testing.T) {
	q := newTwo(t)
	for i := range 3 {
		enqueue(t, q, nil, job("a", i), job("clicks", i), job("z", i))
	}
	names := func(jobs []*queue.Job) (s string) {
		for _, j := range jobs {
			s += j.Queue[:1]
		}
		return s
	}
	for _, want := range []string{"aaacc", "czzz", ""} {
		if got := names(claim(t, q, 5, "a", "clicks", "z")); got != want {
			t.Errorf("claim of 5: got %q, want %q", got, want)
		}
	}
}

// TestInTx: a transaction changes what is at home, and says so of anything else.
func TestInTx(t *testing.T) {
	q := newTwo(t)
	enqueue(t, q, nil, job("mail", 1), job("clicks", 2))
	held := claim(t, q, 1, "clicks")
	tx, err := q.home.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	ctx := t.Context()
	_, settled := q.Settle(ctx, tx, queue.Outcome{Job: held[0]})
	_, cancelled := q.Cancel(ctx, tx, queue.Selection{Kind: "k"})
	_, moved := q.Edit(ctx, nil, queue.Selection{IDs: []int64{1}}, queue.JobChange{Queue: "clicks"})
	claimer, _ := driver.As[driver.TxClaimer](q.Queue)
	_, claimed := claimer.ClaimTx(ctx, tx, queue.ClaimRequest{Queues: []string{"clicks"}})
	scheduler, _ := driver.As[driver.Scheduler](q.Queue)
	scheduled := scheduler.SetSchedules(ctx, tx, queue.Schedule{Name: "s", Spec: "@every 1h", Job: job("clicks", 1)})
	pauser, _ := driver.As[driver.Pauser](q.Queue)
	_, paused := pauser.Pause(ctx, tx, queue.Target{Queue: "clicks"}, true)
	for what, err := range map[string]error{
		"Settle": settled, "Cancel": cancelled, "Edit": moved, "ClaimTx": claimed, "SetSchedules": scheduled,
		"Pause": paused,
	} {
		if _, ok := errors.AsType[*queue.InvalidError](err); !ok {
			t.Errorf("%s of another backend in a transaction: got %v, want an InvalidError", what, err)
		}
	}
	if n, err := q.Cancel(ctx, tx, queue.Selection{Queue: "mail"}); n != 1 || err != nil {
		t.Errorf("Cancel of a queue of the home: got %d, error %v", n, err)
	}
}

// bare is a backend without capabilities.
type bare struct{ queue.Queue }

// only is a backend with one.
type only struct {
	queue.Queue
	driver.Inspector
}

// TestDelegate: As finds what the backends have.
func TestDelegate(t *testing.T) {
	full := memory.New(memory.Options{})
	for _, c := range []struct {
		name        string
		home, other queue.Queue
		want        []bool // Inspector, Pauser, Waiter, Tabled, both
	}{
		{"one", full, full, []bool{true, true, true, false, false}},
		{"nothing", &bare{full}, &bare{full}, []bool{false, false, false, false, false}},
		{"home", full, &bare{full}, []bool{true, true, true, false, false}},
		{"other", &only{full, full}, full, []bool{true, false, true, false, false}},
	} {
		q := route(t, router.Routes{"*": c.home, "clicks": c.other}, router.Options{})
		got := []bool{has[driver.Inspector](q), has[driver.Pauser](q), has[driver.Waiter](q), has[driver.Tabled](q), has[interface {
			driver.Inspector
			driver.Pauser
		}](q)}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
		if !has[*router.Queue](q) || !has[queue.Queue](q) || !has[driver.Upkeeper](q) || has[driver.Receiver](q) {
			t.Errorf("%s: not what it is", c.name)
		}
	}
}

func has[T any](q queue.Queue) bool {
	_, ok := driver.As[T](q)
	return ok
}

// TestPartial: a call of which one backend fails is done for the others, and says for which jobs
// not.
func TestPartial(t *testing.T) {
	q := newTwo(t)
	enqueue(t, q, nil, job("mail", 1), job("clicks", 2))
	held := claim(t, q, 10, "mail", "clicks")
	q.clicks.isDown.Store(true)
	_, _, err := q.Extend(t.Context(), time.Minute, held...)
	wantPartial(t, "Extend", err, held[1])
	lost, err := q.Settle(t.Context(), nil, queue.Outcome{Job: held[0]}, queue.Outcome{Job: held[1]})
	wantPartial(t, "Settle", err, held[1])
	if len(lost) != 0 {
		t.Errorf("Settle: lost %v", lost)
	}
	err = q.Enqueue(t.Context(), nil, job("clicks", 3))
	if !errors.Is(err, errDown) || errors.Is(err, queue.ErrUnknown) {
		t.Errorf("Enqueue in the backend that is down: got %v", err)
	}
	if err = q.Enqueue(t.Context(), nil, job("clicks", 3), job("mail", 4)); !errors.Is(err, queue.ErrUnknown) {
		t.Errorf("Enqueue of which a part is written: got %v, want ErrUnknown", err)
	}
	q.home.isDown.Store(true)
	if err = q.Enqueue(t.Context(), nil, job("clicks", 3), job("mail", 4)); !errors.Is(err, errDown) || errors.Is(err, queue.ErrUnknown) {
		t.Errorf("Enqueue of which nothing is written: got %v", err)
	}
	_, err = q.Claim(t.Context(), queue.ClaimRequest{Queues: []string{"mail"}, Limit: 1, Lease: time.Minute, Worker: "w"})
	if !errors.Is(err, errDown) {
		t.Errorf("Claim from a backend that is down: got %v", err)
	}
}

func wantPartial(t *testing.T, what string, err error, want *queue.Job) {
	t.Helper()
	partial, ok := errors.AsType[*driver.PartialError](err)
	if !ok || len(partial.Jobs) != 1 || partial.Jobs[0] != want || !errors.Is(err, errDown) {
		t.Errorf("%s: got %v, want a PartialError for job %d", what, err, want.ID)
	}
}

// TestListenFails: of two backends that wake, one that cannot is made up for; two cannot be.
func TestListenFails(t *testing.T) { synctest.Test(t, testListenFails) }

func testListenFails(t *testing.T) {
	home := memory.New(memory.Options{})
	woken := make(chan struct{}, 100)
	wake := func(s driver.Signal) {
		if s.Jobs {
			woken <- struct{}{}
		}
	}
	q := route(t, router.Routes{"*": home, "clicks": &bare{home}}, router.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- q.Listen(ctx, "w", []string{"mail", "clicks"}, wake) }()
	for range 2 {
		select {
		case <-woken:
		case <-time.After(20 * time.Second):
			t.Fatal("not woken for a backend that cannot wake")
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	q = route(t, router.Routes{"*": &bare{home}, "clicks": &bare{home}}, router.Options{})
	if err := q.Listen(t.Context(), "w", []string{"clicks"}, wake); err == nil {
		t.Error("Listen for backends that cannot wake: no error")
	}
}

// within is a backend of which a part has failed: Extend and Settle fail for the first job.
type within struct{ queue.Queue }

func (w *within) Extend(ctx context.Context, lease time.Duration, jobs ...*queue.Job) (lost, asked []*queue.Job, err error) {
	lost, asked, err = w.Queue.Extend(ctx, lease, jobs[1:]...)
	return lost, asked, errors.Join(err, &driver.PartialError{Jobs: jobs[:1], Err: errDown})
}

func (w *within) Settle(ctx context.Context, db queue.DB, outcomes ...queue.Outcome) (lost []*queue.Job, err error) {
	lost, err = w.Queue.Settle(ctx, db, outcomes[1:]...)
	return lost, errors.Join(err, &driver.PartialError{Jobs: []*queue.Job{outcomes[0].Job}, Err: errDown})
}

// TestPartialWithin: a backend that has failed for some of its jobs has done the others, and works.
func TestPartialWithin(t *testing.T) {
	for name, routes := range map[string]router.Routes{
		"one":   {"*": &within{memory.New(memory.Options{})}},
		"other": {"*": memory.New(memory.Options{}), "clicks": &within{memory.New(memory.Options{})}},
	} {
		var log strings.Builder
		q := route(t, routes, router.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		enqueue(t, q, nil, job("clicks", 1), job("clicks", 2), job("clicks", 3))
		held := claim(t, q, 10, "clicks")
		held[1].Fence++ // it is lost
		lost, _, err := q.Extend(t.Context(), time.Minute, held...)
		wantPartial(t, name+": Extend", err, held[0])
		if !slices.Equal(lost, held[1:2]) {
			t.Errorf("%s: Extend: lost %v, want the second job", name, lost)
		}
		lost, err = q.Settle(t.Context(), nil, queue.Outcome{Job: held[0]}, queue.Outcome{Job: held[1]}, queue.Outcome{Job: held[2]})
		wantPartial(t, name+": Settle", err, held[0])
		if !slices.Equal(lost, held[1:2]) {
			t.Errorf("%s: Settle: lost %v, want the second job", name, lost)
		}
		if log.Len() > 0 {
			t.Errorf("%s: logged %s", name, log.String())
		}
	}
}
