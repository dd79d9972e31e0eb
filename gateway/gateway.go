package gateway

import (
	"cmp"
	"context"
	"crypto/rand"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/internal/upkeep"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// Options configure [New]. Authorize or Tokens are required.
type Options struct {
	// Tokens are the secrets that the gateway accepts. [Handler.SetTokens] changes them.
	Tokens []Token
	// Authorize says what the sender of a request may do that has none of the Tokens. The zero Access
	// means nothing: the answer is 401. It may be called concurrently.
	Authorize func(r *http.Request) Access
	// MaxBody is the longest body of a request, in bytes; 0 means 64 MiB.
	MaxBody int64
	// MaxJobs is how many jobs or outcomes one request may have, and how many one claim returns at
	// most; 0 means 10,000.
	MaxJobs int
	// MaxPayload is the longest payload in bytes; 0 means [queue.DefaultMaxPayload]. A backend may
	// accept less.
	MaxPayload int
	// MaxWaiting is how many clients may wait at once; 0 means 10,000.
	MaxWaiting int
	// MaxRequests is how many requests a second the clients with one [Access].Name may send, and
	// MaxEnqueued how many jobs a second they may enqueue. 0 means any number. A request beyond that
	// is answered with status 429, and Retry-After says when to send it again. Requests to extend and
	// settle jobs count, but are only refused ten seconds' worth of requests later. Each gateway
	// counts for itself.
	MaxRequests, MaxEnqueued int
	// Poll is how often the gateway looks for jobs for the clients that wait, beside the wake-ups of
	// the backend. 0 means 5 s, or 1 s if the backend cannot wake workers; more than 30 s means 30 s.
	Poll time.Duration
	// Reclaim is how often the gateway reclaims expired jobs, as workers do; 0 means 5 s.
	Reclaim time.Duration
	// Logger gets a record for each failure of the backend. nil means [slog.Default].
	Logger *slog.Logger
}

const (
	// callTimeout is how long a call of the backend may take.
	callTimeout = 10 * time.Second
	// transferTimeout is how long a client may take to send a body, or to read an answer.
	transferTimeout = 30 * time.Second
	// longestWait is the longest that a client waits on the gateway. Proxies end requests that take
	// longer.
	longestWait = 30 * time.Second
)

// Handler serves the API. [New] makes one. Mount it with [http.StripPrefix]. It is safe for
// concurrent use.
type Handler struct {
	queue   queue.Queue
	options Options
	tokens  atomic.Pointer[[]knownToken]
	mux     *http.ServeMux
	name    string // of this gateway, for the backend
	// description is /openapi.json.
	description []byte
	answers     *answers
	reassigner  driver.Reassigner // nil: the backend is none
	deaths      deaths
	rates       struct{ requests, enqueued rates }
	settles     atomic.Int64 // how often clients have settled jobs
	pauses      upkeep.Pauses
	reports     reports
	claimants   claimants
	ledger      *engine.Ledger

	ctx      context.Context // ends with Close
	cancel   context.CancelFunc
	draining context.Context // ends with Drain
	drain    context.CancelFunc
	running  sync.WaitGroup // goroutines of this Handler
	waiting  atomic.Int64   // clients that wait

	mu       sync.Mutex
	groups   map[string]*group
	lookouts map[string]*lookout
	drawn    int // lookouts so far, for their names
}

// New returns a gateway of q. The error is a [*queue.InvalidError] if q is nil, or nothing says who
// may use it: it is closed by default. New does not connect to the database. Until Close is called,
// the gateway reclaims jobs, fires schedules and prunes, as a worker does, because workers behind
// it cannot.
func New(q queue.Queue, o Options) (*Handler, error) {
	if _, ok := driver.As[queue.Queue](q); !ok {
		return nil, &queue.InvalidError{Field: "Queue", Problem: "nil"}
	}
	tokens := o.Tokens
	o.Tokens = nil
	o.MaxBody = cmp.Or(o.MaxBody, 64<<20)
	o.MaxJobs = cmp.Or(o.MaxJobs, 10_000)
	o.MaxPayload = cmp.Or(o.MaxPayload, queue.DefaultMaxPayload)
	o.MaxWaiting = cmp.Or(o.MaxWaiting, 10_000)
	o.Reclaim = cmp.Or(o.Reclaim, 5*time.Second)
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	h := &Handler{
		queue: q, options: o, mux: http.NewServeMux(), name: "gateway-" + rand.Text(), answers: newAnswers(),
		groups: make(map[string]*group), lookouts: make(map[string]*lookout),
	}
	if err := h.SetTokens(tokens); err != nil {
		return nil, err
	}
	h.ledger = engine.NewLedger(h.name, o.Logger)
	h.reassigner, _ = driver.As[driver.Reassigner](q)
	h.ctx, h.cancel = context.WithCancel(context.Background())
	h.draining, h.drain = context.WithCancel(h.ctx)
	var err error
	if h.description, err = describe(routes); err != nil {
		return nil, err
	}
	for _, r := range routes {
		h.mux.Handle(r.method()+" "+r.path, h.serve(r))
	}
	h.startUpkeep()
	return h, nil
}

// Drain makes the gateway ready to end: it tells the clients that wait to connect to a different
// gateway, and refuses new claims, with status 503 and Retry-After. It still takes everything else,
// so that workers can settle what they hold. Call it before [http.Server.Shutdown]. It does not
// wait, and further calls do nothing.
func (h *Handler) Drain() { h.drain() }

// isDraining reports whether Drain or Close was called.
func (h *Handler) isDraining() bool { return h.draining.Err() != nil }

// Close drains the gateway, ends what it does by itself, and waits for that. Call it after
// [http.Server.Shutdown]. It does not close the backend.
func (h *Handler) Close() {
	h.cancel()
	h.running.Wait()
}

// callContext returns a context for a call of the backend that does not end with a client's
// request: what was claimed for a client that has hung up must be known, to release it.
func (h *Handler) callContext() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), callTimeout)
}
