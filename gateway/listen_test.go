package gateway_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/errandhq/errand/backend/memory"
	"github.com/errandhq/errand/gateway"
	"github.com/errandhq/errand/internal/wire"
	"github.com/errandhq/errand/queue/driver"
)

// unwoken is a backend that may not hear of jobs.
type unwoken struct {
	*memory.Queue
	is atomic.Bool
}

func (d *unwoken) Listen(ctx context.Context, worker string, queues []string, tell func(driver.Signal)) error {
	return d.Queue.Listen(ctx, worker, queues, func(s driver.Signal) {
		if !d.is.Load() {
			tell(s)
		}
	})
}

func (d *unwoken) CheckListen(string) error {
	if d.is.Load() {
		return errors.New("password authentication failed")
	}
	return nil
}

// TestListenFails: while the backend cannot listen, a gateway looks for jobs each second, logs that
// once, and refuses requests that wait to be woken, also those that wait already. They are for
// workers that claim by themselves. It says when the backend listens again.
func TestListenFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &unwoken{Queue: memory.New(memory.Options{})}
		var log bytes.Buffer
		h, err := gateway.New(q, gateway.Options{Tokens: everything, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		claimed, waited := make(chan time.Time, 1), make(chan time.Time, 1)
		claim := func() {
			answer := read[wire.ClaimAnswer](t, send(h, "POST", "/v1/claim", claimOne("w", 25*time.Second)))
			if len(answer.Jobs) != 1 {
				t.Errorf("claimed %d jobs, want 1", len(answer.Jobs))
			}
			claimed <- time.Now()
		}
		wait := func() *httptest.ResponseRecorder {
			return send(h, "POST", "/v1/wait", wire.WaitRequest{Queues: []string{"q"}, Worker: "go", Wait: 25 * time.Second})
		}
		go claim()
		go func() {
			read[wire.WaitAnswer](t, wait())
			waited <- time.Now()
		}()
		time.Sleep(6 * time.Second)
		q.is.Store(true)
		fails := time.Now()
		if at := <-waited; at.Sub(fails) > 2*time.Second {
			t.Errorf("a request that waits ends %v after listening has failed, want 2s at most", at.Sub(fails))
		}
		time.Sleep(300 * time.Millisecond)
		enqueue(t, q, "k")
		enqueued := time.Now()
		if at := <-claimed; at.Sub(enqueued) > time.Second {
			t.Errorf("while listening fails, a job is claimed after %v, want the poll of a second", at.Sub(enqueued))
		}
		wantError(t, "a request to be woken", wait(), wire.CodeUnavailable, "")
		time.Sleep(time.Minute)
		q.is.Store(false)
		time.Sleep(2 * time.Second)
		go claim()
		time.Sleep(3 * time.Second)
		enqueue(t, q, "k")
		enqueued = time.Now()
		if at := <-claimed; at.After(enqueued) {
			t.Errorf("once it listens, a job is claimed after %v, want at once", at.Sub(enqueued))
		}
		h.Close()
		failed, works := strings.Count(log.String(), "listening for jobs failed"), strings.Count(log.String(), "listening for jobs works again")
		if failed != 1 || works != 1 {
			t.Errorf("%d records that listening fails, %d that it works again; want one each:\n%s", failed, works, &log)
		}
	})
}
