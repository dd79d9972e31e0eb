package gateway

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"sync"
	"time"

	"github.com/errandhq/errand/internal/wire"
	"github.com/errandhq/errand/queue"
)

const (
	// answerKept is how long the gateway remembers the answer to an enqueue with an idempotency key.
	answerKept = 10 * time.Minute
	// maxAnswers is how many answers it remembers, and maxAnswered of how many jobs in total, for all
	// clients together. Beyond that it forgets the oldest sooner.
	maxAnswers  = 10_000
	maxAnswered = 1_000_000
	// maxIdempotencyKey is the longest idempotency key, in bytes.
	maxIdempotencyKey = 200
)

// answers are the answers to enqueues with idempotency keys, which this gateway remembers in its
// memory: neither a different gateway nor this one after a restart knows them.
type answers struct {
	mu    sync.Mutex
	byKey map[answerKey]*answer
	order []*answer // the oldest first
	jobs  int       // of all that order has
}

type answerKey struct{ client, key string }

// answer is what a request came to.
type answer struct {
	key  answerKey
	hash [sha256.Size]byte // of the jobs
	jobs int
	at   time.Time
	done chan struct{} // closed when the fields below are set
	got  wire.EnqueueAnswer
	err  error
}

func newAnswers() *answers { return &answers{byKey: make(map[answerKey]*answer)} }

// begin returns the answer of the key, for so many jobs. isNew says that the caller has to find it
// out.
func (s *answers) begin(key answerKey, hash [sha256.Size]byte, jobs int) (a *answer, isNew bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget()
	if a := s.byKey[key]; a != nil {
		return a, false
	}
	a = &answer{key: key, hash: hash, jobs: jobs, at: time.Now(), done: make(chan struct{})}
	s.byKey[key] = a
	s.order = append(s.order, a)
	s.jobs += jobs
	return a, true
}

// sweep forgets what is too old.
func (s *answers) sweep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget()
}

// forget forgets the oldest answers, as far as they are too old or too many. The caller holds s.mu.
func (s *answers) forget() {
	for len(s.order) > 0 && (len(s.order) > maxAnswers || s.jobs > maxAnswered || time.Since(s.order[0].at) > answerKept) {
		oldest := s.order[0]
		s.drop(oldest)
		s.order[0] = nil // for the garbage collector
		s.order = s.order[1:]
		s.jobs -= oldest.jobs
	}
}

// drop forgets an answer. The caller holds s.mu.
func (s *answers) drop(a *answer) {
	if s.byKey[a.key] == a {
		delete(s.byKey, a.key)
	}
}

// end sets the answer. A request that wrote nothing may be repeated, so that is forgotten.
func (s *answers) end(a *answer, got wire.EnqueueAnswer, err error) {
	a.got, a.err = got, err
	close(a.done)
	if err != nil && !isUnknown(err) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.drop(a)
	}
}

// enqueueOnce writes the jobs, unless a request with the same idempotency key has done so. Then it
// returns that one's answer.
func (q *request) enqueueOnce(in wire.EnqueueRequest, jobs []*queue.Job) (any, error) {
	if gateway := q.Header.Get(wire.HeaderGateway); gateway != "" && gateway != q.h.name {
		return nil, failed(wire.CodeOther, "this is a different gateway: it does not know the idempotency keys of that one")
	}
	key := cmp.Or(q.Header.Get("Idempotency-Key"), in.IdempotencyKey)
	switch {
	case key == "":
		return q.h.enqueueJobs(jobs)
	case len(key) > maxIdempotencyKey:
		return nil, invalid("idempotency_key", "%d bytes: at most %d", len(key), maxIdempotencyKey)
	}
	text, err := json.Marshal(in.Jobs)
	if err != nil {
		return nil, err
	}
	a, isNew := q.h.answers.begin(answerKey{q.access.Name, key}, sha256.Sum256(text), len(jobs))
	if isNew {
		got, err := q.h.enqueueJobs(jobs)
		q.h.answers.end(a, got, err)
		return got, err
	}
	if a.hash != sha256.Sum256(text) {
		e := failed(wire.CodeConflict, "the key came before with different jobs")
		e.Field = "idempotency_key"
		return nil, e
	}
	select {
	case <-a.done:
		return a.got, a.err
	case <-q.Context().Done():
		return nil, q.Context().Err()
	}
}
