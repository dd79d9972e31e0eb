package network

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/errandhq/errand/lab/chaos/internal/wire"
)

// cutPaths are the requests whose connections are cut, each of them by each of the cuts.
var cutPaths = []string{"/v1/enqueue", "/v1/claim", "/v1/extend", "/v1/settle"}

// cutEach is of how many requests of a path one is cut.
const cutEach = 30

// gatewayCuts cuts connections to the gateways.
type gatewayCuts struct {
	mu    sync.Mutex
	asked map[string]int // requests, by path
	made  map[string]map[wire.Fate]int
}

// cut makes the proxies cut connections from now on.
func (f *fleet) cut() {
	f.cuts = &gatewayCuts{asked: make(map[string]int), made: make(map[string]map[wire.Fate]int)}
	for _, path := range cutPaths {
		f.cuts.made[path] = make(map[wire.Fate]int)
	}
	for _, s := range f.sites {
		s.proxy.SetJudge(f.cuts.judge)
	}
}

// judge lets a number of requests of a path pass, and then cuts the next one in the way that is
// next.
func (c *gatewayCuts) judge(path string) wire.Fate {
	c.mu.Lock()
	defer c.mu.Unlock()
	made, ok := c.made[path]
	if !ok {
		return wire.Pass
	}
	c.asked[path]++
	if c.asked[path]%cutEach != 0 {
		return wire.Pass
	}
	fate := cuts[c.asked[path]/cutEach%len(cuts)]
	made[fate]++
	return fate
}

// awaitCuts waits until each kind of request has been cut in each way, and then ends the cuts.
func (f *fleet) awaitCuts(ctx context.Context) error {
	err := f.h.WaitUntil(ctx, time.Minute, func() (bool, error) { return len(f.cuts.missing()) == 0, nil })
	for _, s := range f.sites {
		s.proxy.SetJudge(nil)
	}
	if err != nil {
		return fmt.Errorf("never cut: %v: %w", f.cuts.missing(), err)
	}
	return nil
}

// missing returns which cuts have not been made.
func (c *gatewayCuts) missing() (kinds []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, path := range cutPaths {
		for _, fate := range cuts {
			if c.made[path][fate] == 0 {
				kinds = append(kinds, path+" "+fate.String())
			}
		}
	}
	return kinds
}

// total returns how many cuts have been made.
func (c *gatewayCuts) total() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, made := range c.made {
		for _, of := range made {
			n += of
		}
	}
	return n
}
