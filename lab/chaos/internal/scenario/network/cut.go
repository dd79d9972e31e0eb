package network

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/errandhq/errand/lab/chaos/internal/child"
	"github.com/errandhq/errand/lab/chaos/internal/harness"
	"github.com/errandhq/errand/lab/chaos/internal/ledger"
	"github.com/errandhq/errand/lab/chaos/internal/peer"
	"github.com/errandhq/errand/lab/chaos/internal/scenario"
	"github.com/errandhq/errand/lab/chaos/internal/wire"
)

var cut = scenario.Scenario{
	Number: 12,
	Name:   "cut",
	What:   "connections are cut when what commits an enqueue has been sent: before it arrives, before it is answered, before the answer arrives",
	Run:    cutCommits,
}

// cuts are the moments of a cut, of which one is drawn.
var cuts = []wire.Fate{wire.CutUnsent, wire.CutUnanswered, wire.CutAnswered}

// cutClient is an enqueuer and the proxy that cuts its connections.
type cutClient struct {
	name  string
	how   child.Commit
	proxy *wire.Proxy
	child *child.Process

	mu   sync.Mutex
	cuts []wire.Fate // in their order
}

func cutCommits(ctx context.Context, h *harness.Harness) error {
	idle := idleClients()
	clients, err := newClients(h, append(cutClients(), idle...))
	defer func() {
		for _, c := range clients {
			_ = c.proxy.Close() // nothing uses it any more
		}
	}()
	if err != nil {
		return err
	}
	cutting := clients[:len(clients)-len(idle)]
	budget := harness.Size(h, 1000, 200) / len(cutting)
	for _, c := range cutting {
		c.cutAtCommit(h, budget)
	}
	for _, c := range clients[len(cutting):] {
		c.cutIdle(h)
	}
	if err := letEnqueue(ctx, h, clients, cutting, budget); err != nil {
		return err
	}
	if err := checkCut(ctx, h, cutting, clients[len(cutting):]); err != nil {
		return err
	}
	return runAll(ctx, h, len(cutting)*budget)
}

// cutClients returns the clients whose connections are cut during a commit.
func cutClients() (clients []*cutClient) {
	for _, driver := range []string{"pgx", "postgres"} {
		for _, tx := range []bool{false, true} {
			for _, keyed := range []bool{false, true} {
				clients = append(clients, &cutClient{
					name: fmt.Sprintf("%s tx %v keyed %v", driver, tx, keyed),
					how:  child.Commit{Driver: driver, Tx: tx, Keyed: keyed},
				})
			}
		}
	}
	return clients
}

// idleClients returns the clients whose connections are cut in the pause after a call, when nothing
// of the next call can have been sent.
func idleClients() []*cutClient {
	const pause = 20 * time.Millisecond
	return []*cutClient{
		{name: "idle pgx", how: child.Commit{Driver: "pgx", Pause: pause}},
		{name: "idle pgx keyed", how: child.Commit{Driver: "pgx", Keyed: true, Pause: pause}},
		{name: "idle postgres", how: child.Commit{Driver: "postgres", Pause: pause}},
	}
}

// newClients makes the proxies of clients, and gives each a range of job numbers.
func newClients(h *harness.Harness, clients []*cutClient) (made []*cutClient, err error) {
	const apart = 1_000_000
	h.Route = func(name, dsn string) (string, error) {
		for _, c := range clients {
			if c.name == name {
				return c.proxy.DSN(dsn)
			}
		}
		return dsn, nil
	}
	for i, c := range clients {
		c.how.First = i * apart
		if c.proxy, err = wire.Listen(h.Server.Address()); err != nil {
			return made, err
		}
		made = append(made, c)
	}
	return made, nil
}

// commits reports whether a request commits what the client enqueues. Over lib/pq errand makes a
// transaction of its own.
func (c *cutClient) commits(r wire.Request) bool {
	if c.how.Tx || c.how.Driver == "postgres" {
		isBegin := r.Has("READ COMMITTED")
		return !isBegin && (r.Has("commit") || r.Has("COMMIT"))
	}
	return r.Has("INSERT INTO")
}

// cutAtCommit cuts the client's connections at commits, until there have been enough cuts. It lets
// one request in four pass.
func (c *cutClient) cutAtCommit(h *harness.Harness, enough int) {
	draw := h.Source(c.name)
	c.proxy.SetJudge(func(r wire.Request) wire.Fate {
		c.mu.Lock()
		defer c.mu.Unlock()
		if !c.commits(r) || len(c.cuts) == enough {
			return wire.Pass
		}
		i := draw.IntN(len(cuts) + 1)
		if i == len(cuts) {
			return wire.Pass
		}
		c.cuts = append(c.cuts, cuts[i])
		if draw.IntN(2) == 0 {
			return cuts[i].Closed() // lib/pq treats it differently from a reset
		}
		return cuts[i]
	})
}

// cutIdle cuts the client's connection after about every second call. pgx checks a connection
// before use only if it is new, or was idle for more than a second.
func (c *cutClient) cutIdle(h *harness.Harness) {
	draw := h.Source(c.name)
	c.proxy.SetJudge(func(r wire.Request) wire.Fate {
		c.mu.Lock()
		defer c.mu.Unlock()
		if !c.commits(r) || draw.IntN(2) == 0 {
			return wire.Pass
		}
		c.cuts = append(c.cuts, wire.CutIdle)
		return wire.CutIdle
	})
}

func (c *cutClient) cutsSoFar() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.cuts)
}

// letEnqueue runs the clients until all cuts have been made, and the idle clients have also met a
// server that refuses connections.
func letEnqueue(ctx context.Context, h *harness.Harness, clients, cutting []*cutClient, budget int) (err error) {
	for _, c := range clients {
		if c.child, err = h.Committer(c.name, c.how); err != nil {
			return err
		}
	}
	err = h.WaitUntil(ctx, 10*time.Minute, func() (bool, error) {
		for _, c := range cutting {
			if c.cutsSoFar() < budget {
				return false, nil
			}
		}
		return true, nil
	})
	if err != nil {
		for _, c := range cutting {
			err = fmt.Errorf("%w; %s: %d of %d cuts", err, c.name, c.cutsSoFar(), budget)
		}
		return fmt.Errorf("the cuts are not made: %w", err)
	}
	h.Logf("%d cuts done", len(cutting)*budget)
	for _, c := range cutting {
		if err := scenario.Stop(c.child); err != nil {
			return err
		}
	}
	return refuseIdle(ctx, h, clients[len(cutting):])
}

// refuseIdle makes the idle clients call a port without a server, a few times each.
func refuseIdle(ctx context.Context, h *harness.Harness, idle []*cutClient) error {
	const times = 10
	for _, c := range idle {
		if err := c.proxy.Refuse(); err != nil {
			return err
		}
	}
	err := h.WaitUntil(ctx, time.Minute, func() (bool, error) {
		book, err := h.Ledger.Read(ctx)
		for _, c := range idle {
			refused := scenario.Count(book.Notes, func(e ledger.Entry) bool { return e.Worker == c.name && strings.Contains(e.Text, "refused") })
			if refused < times {
				return false, err
			}
		}
		return true, err
	})
	if err != nil {
		return fmt.Errorf("nobody is refused: %w", err)
	}
	for _, c := range idle {
		c.child.Kill() // a client whose jobs have keys would retry for ever
	}
	return nil
}

// runAll lets workers run all jobs, and audits.
func runAll(ctx context.Context, h *harness.Harness, faults int) error {
	crew, err := h.Crew(2, child.Work{Worker: peer.Worker{Concurrency: 8}})
	if err != nil {
		return err
	}
	if err := errors.Join(h.Drain(ctx), crew.Stop()); err != nil {
		return err
	}
	f, _, err := h.Audit(ctx)
	if err != nil {
		return err
	}
	h.Row.Faults = faults
	h.Row.Check(f.Dup == 0, "duplicates 0", "%d", f.Dup)
	return nil
}
