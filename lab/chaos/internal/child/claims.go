package child

import (
	"encoding/json"
	"sync"
	"time"

	"github.com/errandhq/errand/lab/chaos/internal/peer"
)

// Claims is the note of what claims took, a JSON array of [ClaimTime].
const Claims = "claims: "

// claimsEvery is how often the claims since the last time are put on record.
const claimsEvery = time.Second

// ClaimTime is one that brought jobs: when it was back, in milliseconds since 1970, and how
// many microseconds it took.
type ClaimTime [2]int64

// NewClaimTime is a claim that was back at that time.
func NewClaimTime(at time.Time, took time.Duration) ClaimTime {
	return ClaimTime{at.UnixMilli(), took.Microseconds()}
}

// At is when it was back.
func (c ClaimTime) At() time.Time { return time.UnixMilli(c[0]) }

// Took is how long it took.
func (c ClaimTime) Took() time.Duration { return time.Duration(c[1]) * time.Microsecond }

// claims keeps what a worker's claims took, and puts it on record now and then.
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

// close puts the rest on record.
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
