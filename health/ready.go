package health

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

const (
	// defaultTimeout is as long as Kubernetes waits for a probe by default.
	defaultTimeout = time.Second
	// validFor is how long an answer of the database counts for the requests that follow.
	validFor = time.Second
)

// Readiness is a handler that answers 200 while the program can use its queue, and 503 otherwise.
// It is a struct literal, of which only Queue is required. Do not copy or change it after the first
// request. It may serve any number of requests at once.
//
// The program is ready if the database answers within Timeout, if its schema is at least as new as
// the program, and if each of Workers claims. A schema that is newer does not count: otherwise the
// first new process of a deploy, which migrates, would stop all the old ones.
//
// However many requests come, it asks the database at most once a second, one question at a time. A
// question that the driver does not end at Timeout stays under way, in one goroutine and on one
// connection, and requests are answered with 503 meanwhile.
type Readiness struct {
	// Queue is the backend, or an Enqueuer around it: [driver.As] must find a [driver.Checker] in it.
	Queue queue.Enqueuer
	// Workers are the backends of this process's workers, as [Watch] returns them. nil means that
	// claims do not count.
	Workers []*Watched
	// Timeout is how long a request waits for the database. 0 means 1 s, which is also how long
	// Kubernetes waits for a probe by default.
	Timeout time.Duration
	// Logger gets a record, with the error, when the answer changes to 503, and when it changes
	// back. nil means [slog.Default].
	Logger *slog.Logger

	mu       sync.Mutex
	latest   *check // under way, or the last one
	notReady bool   // the last answer
}

// check is one question to the database.
type check struct {
	began, ended time.Time
	done         chan struct{} // closed when it has ended
	err          error
}

// errTimeout says that the database has not answered in time.
var errTimeout = errors.New("no answer")

// ServeHTTP answers a probe: 200 and "ready", or 503 and "not ready", with the reason.
func (h *Readiness) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !mayAnswer(w, r) {
		return
	}
	reason, err := h.problem(r.Context())
	if r.Context().Err() != nil {
		return // nobody waits for the answer, which may be due to that
	}
	h.note(reason, err)
	if reason != "" {
		answer(w, http.StatusServiceUnavailable, "not ready: "+reason)
		return
	}
	answer(w, http.StatusOK, "ready")
}

// problem returns why the program is not ready, or "". err is the cause, or nil.
func (h *Readiness) problem(ctx context.Context) (reason string, err error) {
	checker, ok := driver.As[driver.Checker](h.Queue)
	if !ok {
		return "the queue cannot be checked", fmt.Errorf("%T is no driver.Checker", h.Queue)
	}
	timeout := cmp.Or(h.Timeout, defaultTimeout)
	err = h.current(checker, timeout).wait(ctx, timeout)
	var setup *queue.SetupError
	switch {
	case err == nil || errors.Is(err, queue.ErrNewer):
	case errors.Is(err, errTimeout) || errors.Is(err, context.DeadlineExceeded):
		return fmt.Sprintf("the database does not answer within %v", timeout), err
	case errors.As(err, &setup):
		return "the database's schema does not fit this program", err
	default:
		return "the database cannot be asked", err
	}
	for _, w := range h.Workers {
		if reason, err := w.problem(time.Now()); reason != "" {
			return reason, err
		}
	}
	return "", nil
}

// current returns the question to the database that is under way, or whose answer is still valid.
// If there is none, it begins one.
func (h *Readiness) current(checker driver.Checker, timeout time.Duration) *check {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c := h.latest; c != nil && (!c.hasEnded() || time.Since(c.ended) < validFor) {
		return c
	}
	c := &check{began: time.Now(), done: make(chan struct{})}
	h.latest = c
	go func() {
		// It does not end with the request: others wait for it, too.
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		c.err = checker.Check(ctx)
		c.ended = time.Now()
		close(c.done)
	}()
	return c
}

func (c *check) hasEnded() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// wait returns the database's answer, or errTimeout once the question is older than timeout.
func (c *check) wait(ctx context.Context, timeout time.Duration) error {
	timer := time.NewTimer(time.Until(c.began.Add(timeout)))
	defer timer.Stop()
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
	}
	if c.hasEnded() {
		return c.err
	}
	return fmt.Errorf("%w for %v", errTimeout, time.Since(c.began).Round(time.Millisecond))
}

// note logs that the answer has changed.
func (h *Readiness) note(reason string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.notReady == (reason != "") {
		return
	}
	h.notReady = reason != ""
	logger := h.Logger
	if logger == nil {
		logger = slog.Default()
	}
	if h.notReady {
		logger.Warn("errand: not ready", "reason", reason, "error", err)
		return
	}
	logger.Info("errand: ready again")
}
