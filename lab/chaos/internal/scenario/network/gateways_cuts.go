package network

import (
	"sync"

	"github.com/errandhq/errand/lab/chaos/internal/wire"
)

// cutPaths are the requests whose connections are cut, each of them by each of the cuts.
var cutPaths = []string{"/v1/enqueue", "/v1/claim", "/v1/extend", "/v1/settle"}

// cutEach is of how many requests of a path one is cut.
const cutEach = 40

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

// judge lets a number of requests of a path pass, and then cuts the next one in the way that is next.
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

// stop ends the cuts. It returns how many there were, and of which kinds there was none.
func (f *fleet) stopCuts() (total int, missing []string) {
	for _, s := range f.sites {
		s.proxy.SetJudge(nil)
	}
	f.cuts.mu.Lock()
	defer f.cuts.mu.Unlock()
	for _, path := range cutPaths {
		for _, fate := range cuts {
			n := f.cuts.made[path][fate]
			if total += n; n == 0 {
				missing = append(missing, path+" "+fate.String())
			}
		}
	}
	return total, missing
}
