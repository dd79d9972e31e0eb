package gateway

import (
	"sync"
	"time"

	"github.com/errandhq/errand/internal/wire"
)

// rates bound how often the clients of one name may do something. A client may do what it has saved
// up in one second at once, and a request may go beyond that: then the next ones wait for it. So a
// batch is taken or refused as a whole, whatever its size, and the rate holds over time.
type rates struct {
	mu   sync.Mutex
	full map[string]time.Time // by name: when it has saved up all again; not there: it has
}

// heldCredit is how far requests about held jobs may go beyond a rate: a job whose lease is not
// extended runs again.
const heldCredit = 10 * time.Second

// take takes n from what the client has saved up at a rate of perSecond, and from its credit. If
// there is nothing, it takes nothing, and the error says when to ask again. A rate of 0 or less is
// none.
func (r *rates) take(name, what string, n, perSecond int, credit time.Duration) error {
	if perSecond <= 0 {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now, each := time.Now(), time.Second/time.Duration(perSecond)
	full := r.full[name]
	if full.Before(now) {
		full = now
	}
	if wait := full.Sub(now) - (time.Second - each) - credit; wait > 0 {
		e := failed(wire.CodeRate, "%q may send %d %s a second: send again after %v", name, perSecond, what, wait)
		e.retryAfter = wait
		return e
	}
	if r.full == nil {
		r.full = make(map[string]time.Time)
	}
	r.full[name] = full.Add(time.Duration(n) * each)
	return nil
}

// sweep forgets the clients that have saved up all.
func (r *rates) sweep() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, full := range r.full {
		if full.Before(time.Now()) {
			delete(r.full, name)
		}
	}
}
