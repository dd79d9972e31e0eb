package main

import (
	"sync"
	"time"
)

// tally is how many webhooks run. The handlers count themselves. Its zero value is ready.
type tally struct {
	mu      sync.Mutex
	running map[string]int // by tenant
	highest int            // of one tenant
	others  int            // of all tenants but floodTenant
	changes []change
}

// change is how many webhooks ran from a time on.
type change struct {
	at            time.Time
	flood, others int
}

// count adds n to what runs for the tenant.
func (t *tally) count(tenant string, n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.running == nil {
		t.running = make(map[string]int)
	}
	t.running[tenant] += n
	t.highest = max(t.highest, t.running[tenant])
	if tenant != floodTenant {
		t.others += n
	}
	t.changes = append(t.changes, change{time.Now(), t.running[floodTenant], t.others})
}
