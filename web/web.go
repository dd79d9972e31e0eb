package web

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// Options configure [New]. Authorize is required.
type Options struct {
	// Authorize says who sends a request, and what that person may do. It is called for each
	// request, also for those of the refresh, and may be called concurrently. For the zero Access
	// the answer is 403. [Everyone] is an Authorize for pages that are protected elsewhere.
	Authorize func(r *http.Request) Access
	// Redact returns what a person without the permission [Payload] sees of a stored text. nil
	// means [Shape]. It may be called concurrently.
	Redact func(v Value) string
	// Open returns a copy of job with the payload that its handler gets, as the methods Open of
	// middleware.Encrypt and middleware.Compress do. nil shows payloads as they are stored. Open is
	// called for people with the permission [Payload] who ask for the values of a job, once that is
	// audited. If it fails, the page shows its error and the stored payload. It must not change job,
	// and may be called concurrently.
	Open func(job *queue.Job) (*queue.Job, error)
	// ReadOnly takes all permissions but [View] and [Payload] from everybody.
	ReadOnly bool
	// TrustedOrigins are origins whose forms may change something, such as
	// "https://ops.example.com". The dashboard's own origin need not be named, unless a proxy
	// changes the Host of requests.
	TrustedOrigins []string
	// Logger gets a record for each action, with who did it and why, and for each failure of the
	// backend. nil means [slog.Default].
	Logger *slog.Logger
}

// Handler serves the dashboard. [New] makes one. Mount it with [http.StripPrefix]. It is safe for
// concurrent use and runs nothing while nobody watches.
type Handler struct {
	options Options
	source  source
	mux     *http.ServeMux
	csrf    *http.CrossOriginProtection
	actions atomic.Int64  // how many there were: what was read before the last one is out of date
	slots   chan struct{} // bounds how many calls of the backend are under way
	quick   chan struct{} // the same for facts, which wait for no other call
	long    chan struct{} // the same for calls that may take longer than callTimeout
	samples *samples
	load    load
	ctx     context.Context
	cancel  context.CancelFunc
}

const (
	// callTimeout is how long a call of the backend may take.
	callTimeout = 2 * time.Second
	// factTimeout is how long reading a fact may take.
	factTimeout = time.Second
	// actionTimeout is how long an action may take.
	actionTimeout = 10 * time.Second
	// maxCalls is how many calls of the backend may be under way at once.
	maxCalls = 4
	// maxQuick is how many facts may be read at once.
	maxQuick = 3
	// maxLong is how many examinations of the doctor and of explain may be under way at once.
	maxLong = 2
	// maxForm is the longest form, in bytes, that is read.
	maxForm = 256 << 10
)

// New returns the dashboard of q, which has to be a [driver.Inspector] or wrap one. The error is a
// [*queue.InvalidError] if q is not, if there is no Authorize, or if a trusted origin is none. New
// does not connect to the database.
func New(q queue.Enqueuer, o Options) (*Handler, error) {
	if o.Authorize == nil {
		return nil, &queue.InvalidError{Field: "Options.Authorize", Problem: "nil: say who may see the jobs; web.Everyone(web.Viewer) lets everybody"}
	}
	s := sourceOf(q)
	if s.inspector == nil {
		return nil, &queue.InvalidError{Field: "Queue", Problem: fmt.Sprintf("%T is no driver.Inspector: its jobs cannot be listed", q)}
	}
	csrf := http.NewCrossOriginProtection()
	for _, origin := range o.TrustedOrigins {
		if err := csrf.AddTrustedOrigin(origin); err != nil {
			return nil, &queue.InvalidError{Field: "Options.TrustedOrigins", Problem: err.Error(), Err: err}
		}
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Redact == nil {
		o.Redact = Shape
	}
	h := &Handler{options: o, source: s, mux: http.NewServeMux(), csrf: csrf, slots: make(chan struct{}, maxCalls),
		quick: make(chan struct{}, maxQuick), long: make(chan struct{}, maxLong)}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	h.samples = newSamples(h)
	for _, route := range routes {
		h.mux.Handle(route.method+" "+route.path, h.serve(route))
	}
	h.mux.Handle("/", h.serve(lost))
	return h, nil
}

// Close ends what the handler reads from the backend. It does not close the backend. Pages that are
// asked for afterwards show an error.
func (h *Handler) Close() { h.cancel() }

// call calls the backend for a page. It waits until few enough other calls are under way, and gives
// up after timeout.
func (h *Handler) call(ctx context.Context, timeout time.Duration, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	defer context.AfterFunc(h.ctx, cancel)()
	slots := h.slots
	switch {
	case timeout < callTimeout:
		slots = h.quick
	case timeout > callTimeout:
		slots = h.long
	}
	select {
	case slots <- struct{}{}:
		defer func() { <-slots }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return f(ctx)
}

// source is the backend, as the capabilities that it has; nil for those that it has not.
type source struct {
	inspector    driver.Inspector
	ruler        driver.Ruler
	pauser       driver.Pauser
	scheduler    driver.Scheduler
	canceller    driver.Canceller
	editor       driver.Editor
	results      driver.ResultKeeper
	fleet        driver.Fleet
	auditor      driver.Auditor
	statistician driver.Statistician
	beginner     driver.TxBeginner
	queue        queue.Queue // for doctor and explain
	db           *sql.DB
}

func sourceOf(q queue.Enqueuer) (s source) {
	s.inspector, _ = driver.As[driver.Inspector](q)
	s.ruler, _ = driver.As[driver.Ruler](q)
	s.pauser, _ = driver.As[driver.Pauser](q)
	s.scheduler, _ = driver.As[driver.Scheduler](q)
	s.canceller, _ = driver.As[driver.Canceller](q)
	s.editor, _ = driver.As[driver.Editor](q)
	s.results, _ = driver.As[driver.ResultKeeper](q)
	s.fleet, _ = driver.As[driver.Fleet](q)
	s.auditor, _ = driver.As[driver.Auditor](q)
	s.statistician, _ = driver.As[driver.Statistician](q)
	s.beginner, _ = driver.As[driver.TxBeginner](q)
	s.queue, _ = driver.As[queue.Queue](q)
	if t, ok := driver.As[driver.Tabled](q); ok {
		s.db = t.Tables().DB
	}
	return s
}

// explainError returns what a page says of an error, and whether the operator has to look into the
// log. Texts of databases may have values of jobs in them, so pages do not show them.
func explainError(err error) (text string, isLogged bool) {
	if i, ok := errors.AsType[*queue.InvalidError](err); ok {
		return i.Field + ": " + i.Problem, false
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "The database has not answered in time.", true
	}
	if lacksRight(err) {
		return "The database refuses this to the program that serves this page: its user lacks a right.", true
	}
	return "The database has answered with an error. The log of the program that serves this page has it.", true
}

// lacksRight reports whether the database has refused something because its user lacks a right.
func lacksRight(err error) bool {
	const insufficientPrivilege = "42501"
	state, ok := errors.AsType[interface {
		error
		SQLState() string
	}](err)
	return ok && state.SQLState() == insufficientPrivilege || errors.Is(err, fs.ErrPermission)
}
