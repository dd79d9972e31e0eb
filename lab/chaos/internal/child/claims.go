package child

import (
	"encoding/json"
	"sync"
	"time"

	"github.com/errandhq/errand/lab/chaos/internal/peer"
)

// Claims begins the note of how long claims took: a JSON array of [ClaimTime].
const Claims = "claims: "

// claimsEvery is how often the last claims are recorded.
const claimsEvery = time.Second

// ClaimTime is a claim that returned jobs: when it returned, in milliseconds since 1970, and how
// long it took, in microseconds.
type ClaimTime [2]int64

// NewClaimTime returns a claim that returned at that time.
func NewClaimTime(at time.Time, took time.Duration) ClaimTime {
	return ClaimTime{at.UnixMilli(), took.Microseconds()}
}

// At returns when the claim returned.
func (c ClaimTime) At() time.Time { return time.UnixMilli(c[0]) }

// Took returns how long the claim took.
func (c ClaimTime) Took() time.Duration { return time.Duration(c[1]) * time.Microsecond }

// claims collects how long a worker's claims took, and records it regularly.
type claims struct {
	self  *self
	mu    sync.Mutex
	since []ClaimTime
	stop  chan struct{}
	done  chan struct{}
}

func recordClaims(s *self) *claims {
	c := &claims{self: s, stop: make(chan struct{}), done: make(chan struct{})}
	go c.run()
	return c
}

func (c *claims) add(took time.Duration, _ int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.since = append(c.since, NewClaimTime(time.Now(), took))
}

// close records the rest.
func (c *claims) close() {
	close(c.stop)
	<-c.done
	c.write()
}

func (c *claims) run() {
	defer close(c.done)
	tick := time.NewTicker(claimsEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			c.write()
		case <-c.stop:
			return
		}
	}
}

func (c *claims) write() {
	c.mu.Lock()
	since := c.since
	c.since = nil
	c.mu.Unlock()
	if len(since) == 0 {
		return
	}
	text, err := json.Marshal(since)
	exitOnError(err)
	c.self.note(peer.Run{}, Claims+string(text))
}
