package middleware_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/errandhq/errand/middleware"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/queuetest"
)

// A price alert is worth nothing an hour later.
func ExampleExpire() {
	ctx := context.Background()
	q := queuetest.New(queuetest.Options{}) // in a program: postgres.New(db, postgres.Options{})
	alert := queue.NewKind[string]("price.alert")
	enqueuer := queue.ChainEnqueuer(q, middleware.ExpireAfter(time.Hour))
	if err := enqueuer.Enqueue(ctx, nil, alert.New("in time")); err != nil {
		log.Fatal(err)
	}
	late := alert.New("too late")
	middleware.ExpireAt(late, time.Now().Add(-time.Minute))
	if err := enqueuer.Enqueue(ctx, nil, late); err != nil {
		log.Fatal(err)
	}

	mux := queue.NewMux()
	alert.Handle(mux, func(_ context.Context, _ *queue.Job, text string) error {
		fmt.Println(text)
		return nil
	})
	if _, err := q.Drain(ctx, queue.Chain(mux, middleware.Expire)); err != nil {
		log.Fatal(err)
	}
	dead, _, _ := q.Jobs(ctx, queue.Filter{Status: queue.StatusDead})
	fmt.Println("dead:", len(dead))
	// Output:
	// in time
	// dead: 1
}

// TestExpire: a job expires after the time that the header says, counted from when it is due.
func TestExpire(t *testing.T) {
	for _, c := range []struct {
		name    string
		set     func(j *queue.Job)
		expires time.Duration // from now
	}{
		{"due at once", func(*queue.Job) {}, time.Hour},
		{"delayed", func(j *queue.Job) { j.Delay = time.Hour }, 2 * time.Hour},
		{"scheduled", func(j *queue.Job) { j.ScheduledAt = time.Now().Add(-30 * time.Minute) }, 30 * time.Minute},
		{"with a time of its own", func(j *queue.Job) { middleware.ExpireAt(j, time.Now().Add(time.Minute)) }, time.Minute},
		{"with no header of this name", func(j *queue.Job) { j.Headers = map[string]string{"a": "b"} }, time.Hour},
	} {
		synctest.Test(t, func(t *testing.T) {
			var sent *queue.Job
			enqueuer := middleware.ExpireAfter(time.Hour)(queue.EnqueuerFunc(
				func(_ context.Context, _ queue.DB, jobs ...*queue.Job) error { sent = jobs[0]; return nil }))
			job := &queue.Job{Kind: "k"}
			c.set(job)
			before := len(job.Headers)
			if err := enqueuer.Enqueue(t.Context(), nil, job); err != nil {
				t.Fatal(err)
			}
			if len(job.Headers) != before {
				t.Errorf("%s: the caller's job has headers %v after Enqueue", c.name, job.Headers)
			}
			handler := middleware.Expire(queue.HandlerFunc(func(context.Context, *queue.Job) error { return nil }))
			time.Sleep(c.expires - 1)
			if err := handler.HandleJob(t.Context(), sent); err != nil {
				t.Errorf("%s, before it expires: %v", c.name, err)
			}
			time.Sleep(time.Nanosecond)
			err := handler.HandleJob(t.Context(), sent)
			if action, _ := queue.ActionOf(err); !errors.Is(err, queue.ErrExpired) || action != queue.Dead {
				t.Errorf("%s, once it has expired: %v, want a Discard with ErrExpired", c.name, err)
			}
		})
	}
}

// TestExpireOdd: a header that is no time makes the job dead, and bad jobs are the backend's to
// refuse.
func TestExpireOdd(t *testing.T) {
	ran := 0
	handler := middleware.Expire(queue.HandlerFunc(func(context.Context, *queue.Job) error { ran++; return nil }))
	for _, text := range []string{"", "tomorrow", "2026-01-01", "\xff"} {
		err := handler.HandleJob(t.Context(), &queue.Job{Headers: map[string]string{middleware.ExpiresHeader: text}})
		var invalid *queue.InvalidError
		if action, _ := queue.ActionOf(err); !errors.As(err, &invalid) || invalid.Field != "Headers" || action != queue.Dead {
			t.Errorf("header %q: %v, want a Discard with an InvalidError about Headers", text, err)
		}
	}
	for _, at := range []time.Time{{}, time.Unix(math.MinInt32, 0)} {
		job := &queue.Job{}
		middleware.ExpireAt(job, at)
		if err := handler.HandleJob(t.Context(), job); !errors.Is(err, queue.ErrExpired) {
			t.Errorf("expires at %v: %v, want ErrExpired", at, err)
		}
	}
	if ran != 0 {
		t.Errorf("%d jobs ran, want 0", ran)
	}
	enqueuer := queue.ChainEnqueuer(queuetest.New(queuetest.Options{}), middleware.ExpireAfter(math.MaxInt64))
	if err := enqueuer.Enqueue(t.Context(), nil, nil); err == nil {
		t.Error("Enqueue of a nil job: no error")
	}
	job := &queue.Job{Kind: "k"}
	if err := enqueuer.Enqueue(t.Context(), nil, job); err != nil || job.ID == 0 {
		t.Errorf("expires after 292 years: ID %d, error %v", job.ID, err)
	}
}
