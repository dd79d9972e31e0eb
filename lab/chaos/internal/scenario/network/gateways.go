package network

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/errandhq/errand/lab/chaos/internal/audit"
	"github.com/errandhq/errand/lab/chaos/internal/child"
	"github.com/errandhq/errand/lab/chaos/internal/harness"
	"github.com/errandhq/errand/lab/chaos/internal/hop"
	"github.com/errandhq/errand/lab/chaos/internal/peer"
	"github.com/errandhq/errand/lab/chaos/internal/scenario"
	"github.com/errandhq/errand/lab/internal/server"
)

var gateways = scenario.Scenario{
	Number: 39,
	Name:   "gateways",
	What: "1,000 workers without a connection to the database wait on two gateways, which are killed with SIGKILL, deployed anew, and frozen past the leases; " +
		"connections are cut before and after answers",
	System: peer.Remote,
	Alone:  true, // two gateways and their workers need both processors
	Run:    strikeGateways,
}

const (
	remoteProcesses = 5
	remoteLease     = 5 * time.Second
	// connected is the enqueuer that is connected to the database, so that jobs come while clients of
	// the gateways wait for a frozen one.
	connected = "connected"
	// gatewayFrozen is how long a gateway is frozen: for longer than a lease.
	gatewayFrozen = remoteLease + time.Second
	// gatewayGivenUp is how long a worker may still wait for answers that it has asked a frozen
	// gateway for: to a claim, and then to the heartbeat that a claim needs that has taken so long.
	// The lease of its job has begun before both.
	gatewayGivenUp = peer.RemoteTimeout + remoteLease/3
	// gatewayCalm is the time between a fault and the next one.
	gatewayCalm = time.Second
)

// fleet is what the faults strike: two gateways, and the workers behind them.
type fleet struct {
	h *harness.Harness
	// workers is how many there are in all processes. On two slow processors 1,000 are so busy with
	// connecting anew after each fault that some process starts no job for longer than a lease.
	workers int
	// rate is how many jobs a second each of two enqueuers writes, and most is how long a handler
	// takes at most. They keep a sixth of the workers busy, so there is no backlog, and the others
	// wait. A gateway wakes first who has waited longest: in short each worker's turn comes within
	// two seconds, which is well below the lease for which a process may start nothing.
	rate  int
	most  time.Duration
	sites []*site
	crew  *harness.Crew
	cuts  *gatewayCuts
}

// site is a gateway in its place: the processes there come and go, the URL stays.
type site struct {
	name    string
	address string
	proxy   *hop.Proxy
	turn    int // how many processes there have been
	process *child.Process
}

func strikeGateways(ctx context.Context, h *harness.Harness) error {
	f := &fleet{h: h, workers: harness.Size(h, 1000, 250), rate: 50, most: harness.Size(h, 3*time.Second, 700*time.Millisecond)}
	defer f.close()
	if err := f.start(ctx); err != nil {
		return err
	}
	if err := f.checkIdle(ctx); err != nil {
		return err
	}
	f.cut()
	enqueuer, err := h.Enqueuer("enqueuer", child.Enqueue{Batch: 5, Rate: f.rate})
	if err != nil {
		return err
	}
	other, err := h.Enqueuer(connected, child.Enqueue{First: 1_000_000, Batch: 5, Rate: f.rate})
	if err != nil {
		return err
	}
	begun := time.Now()
	for round := range harness.Size(h, 20, 1) {
		if err := f.strikeAll(ctx, f.sites[round%2], f.sites[1-round%2]); err != nil {
			return err
		}
	}
	if err := h.Sleep(ctx, gatewayCalm); err != nil {
		return err
	}
	ended := time.Now()
	if err := errors.Join(f.awaitCuts(ctx), scenario.Stop(other)); err != nil {
		return err
	}
	return f.finish(ctx, enqueuer, begun, ended)
}

// start starts the gateways and the workers.
func (f *fleet) start(ctx context.Context) error {
	for i := range 2 {
		port, err := server.FreePort()
		if err != nil {
			return err
		}
		s := &site{name: fmt.Sprintf("g%d", i+1), address: net.JoinHostPort("127.0.0.1", port)}
		if s.proxy, err = hop.Listen(s.address); err != nil {
			return err
		}
		f.sites = append(f.sites, s)
		if err := f.startGateway(ctx, s); err != nil {
			return err
		}
	}
	clients := 0
	f.h.Route = func(name, dsn string) (string, error) {
		if name == connected {
			return dsn, nil
		}
		clients++
		first, second := f.sites[clients%2], f.sites[(clients+1)%2]
		return peer.URLs(first.proxy.URL(), second.proxy.URL()), nil
	}
	var err error
	f.crew, err = f.h.Crew(remoteProcesses, child.Work{
		Workers: f.workers / remoteProcesses,
		Worker:  peer.Worker{Concurrency: 1, Lease: remoteLease},
		Least:   50 * time.Millisecond,
		Most:    f.most,
	})
	return err
}

// startGateway starts a new process at a site, and waits until it can be connected to.
func (f *fleet) startGateway(ctx context.Context, s *site) (err error) {
	s.turn++
	name := fmt.Sprintf("%s.%d", s.name, s.turn)
	spec := child.Spec{Part: "gateway", Name: name, DSN: f.h.DSN("application_name", name), Gateway: child.Gateway{Address: s.address}}
	if s.process, err = f.h.Start(spec); err != nil {
		return err
	}
	err = f.h.WaitUntil(ctx, time.Minute, func() (bool, error) {
		conn, err := net.Dial("tcp", s.address)
		if err != nil {
			return false, nil
		}
		return true, conn.Close()
	})
	if err != nil {
		return fmt.Errorf("%s does not listen: %w", name, err)
	}
	return nil
}

// close closes the proxies.
func (f *fleet) close() {
	for _, s := range f.sites {
		_ = s.proxy.Close() // nothing uses it any more
	}
}

// strikeAll kills both gateways, replaces one as a deploy does, and freezes the other. A client
// stays with a gateway until that fails, so after the first fault each one strikes all clients.
func (f *fleet) strikeAll(ctx context.Context, first, second *site) error {
	for _, strike := range []struct {
		site *site
		with func(context.Context, *site) error
	}{{first, f.kill}, {second, f.kill}, {first, f.deploy}, {second, f.freeze}} {
		if err := f.h.Sleep(ctx, gatewayCalm); err != nil {
			return err
		}
		if err := strike.with(ctx, strike.site); err != nil {
			return err
		}
	}
	return nil
}

// kill kills a gateway, and starts a new one in its place.
func (f *fleet) kill(ctx context.Context, s *site) error {
	fault := audit.Fault{What: "SIGKILL of a gateway", At: time.Now()}
	s.process.Kill()
	if err := s.proxy.Refuse(); err != nil {
		return err
	}
	if err := f.h.Sleep(ctx, harness.Size(f.h, 500*time.Millisecond, 100*time.Millisecond)); err != nil {
		return err
	}
	if err := errors.Join(f.startGateway(ctx, s), s.proxy.Resume()); err != nil {
		return err
	}
	fault.Until = time.Now()
	f.h.RecordFault(fault)
	return nil
}

// deploy replaces a gateway gracefully. It explains no duplicate.
func (f *fleet) deploy(ctx context.Context, s *site) error {
	f.h.RecordFault(audit.Fault{What: "SIGTERM of a gateway", At: time.Now(), Worker: s.process.Name})
	if err := errors.Join(s.proxy.Refuse(), s.process.Terminate()); err != nil {
		return err
	}
	if err := s.process.Wait(time.Minute); err != nil {
		return err
	}
	return errors.Join(f.startGateway(ctx, s), s.proxy.Resume())
}

// freeze freezes a gateway past the leases.
func (f *fleet) freeze(ctx context.Context, s *site) error {
	fault := audit.Fault{What: "SIGSTOP of a gateway", At: time.Now()}
	if err := s.process.Freeze(); err != nil {
		return err
	}
	if err := errors.Join(f.h.Sleep(ctx, gatewayFrozen), s.process.Thaw()); err != nil {
		return err
	}
	fault.Until = time.Now().Add(gatewayGivenUp)
	f.h.RecordFault(fault)
	return nil
}
