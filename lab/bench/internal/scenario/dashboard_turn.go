package scenario

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"time"

	"github.com/errandhq/errand/lab/bench/internal/browser"
	"github.com/errandhq/errand/lab/bench/internal/child"
	"github.com/errandhq/errand/lab/bench/internal/harness"
	"github.com/errandhq/errand/lab/bench/internal/result"
	labpeer "github.com/errandhq/errand/lab/internal/peer"
)

// beside calls f while a worker drains the default queue and jobs are enqueued as fast as it does
// so. With timesClaims it returns how long the worker's claims have taken.
func (s *site) beside(ctx context.Context, timesClaims bool, f func(context.Context, harness.Crew) error) (child.Figures, error) {
	crew, err := s.StartWorkers(ctx, harness.Drainage{System: s.system, Spec: child.Spec{TimeClaims: timesClaims}})
	defer crew.Kill()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	fed, isFull := make(chan error, 1), make(chan struct{})
	go func() {
		err := s.feed(ctx, crew, sync.OnceFunc(func() { close(isFull) }))
		cancel(err) // ends f
		fed <- err
	}()
	select {
	case <-isFull: // a worker that begins earlier finds nothing, and sleeps: statements notify nobody
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if err := crew.Begin(); err != nil {
		return nil, err
	}
	err = wait(ctx, s.Duration(dashboardSettle))
	if err == nil {
		err = f(ctx, crew)
	}
	cancel(nil)
	if err := errors.Join(err, <-fed); err != nil {
		return nil, err
	}
	results, err := crew.Stop()
	if err != nil {
		return nil, err
	}
	figures := results[0].Figures
	if timesClaims && figures["claim_p99"] == 0 {
		return nil, errors.New("the worker has timed no claims")
	}
	return figures, nil
}

const (
	// feedAhead is how many jobs of the drain wait at least, at scale 1. A statement makes a fifth of
	// them. minAhead is as many at a small scale: a worker that finds none sleeps for the rest of a
	// short turn, because statements notify nobody.
	feedAhead = 100_000
	minAhead  = 20_000
)

// feed enqueues jobs until ctx ends, so that the workers never have to wait. It calls full when
// feedAhead jobs wait.
func (s *site) feed(ctx context.Context, crew harness.Crew, full func()) (err error) {
	db, err := labpeer.OpenDB("pgx", s.Postgres.OwnDSN, 1)
	if err != nil {
		return err
	}
	defer func(db *sql.DB) { err = errors.Join(err, db.Close()) }(db)
	ahead := max(s.Jobs(feedAhead), minAhead)
	jobs := ahead / 5
	for sent := 0; ctx.Err() == nil; {
		if sent-crew.Handled() >= ahead {
			full()
			_ = wait(ctx, 10*time.Millisecond)
			continue
		}
		_, err := db.ExecContext(context.WithoutCancel(ctx), `INSERT INTO errand.jobs (kind, payload)
			SELECT 'bench.order', jsonb_build_object('order', i, 'to', 'alice@example.com') FROM generate_series(1, $1) AS i`, jobs)
		if err != nil {
			return err
		}
		sent += jobs
	}
	return nil
}

// turn is what was measured in some time.
type turn struct {
	took      time.Duration
	handled   int
	server    time.Duration         // processor time of the database
	sessions  map[int]time.Duration // of the dashboard's sessions with it, by their process
	unmetered bool                  // whether processor times are unknown
}

func (t turn) rate() float64 { return float64(t.handled) / t.took.Seconds() }

// measureTurn measures the drain and the database for a time, with a crowd that watches if there is
// one.
func (s *site) measureTurn(ctx context.Context, crew harness.Crew, length time.Duration, crowd *browser.Crowd) (t turn, err error) {
	browsing, stop := context.WithCancel(ctx)
	browsed := make(chan struct{})
	go func() {
		defer close(browsed)
		if crowd != nil {
			crowd.Browse(browsing, min(browser.Refresh, length/2))
		}
	}()
	defer func() {
		stop()
		<-browsed
	}()
	if err := wait(ctx, s.Duration(dashboardSettle)); err != nil {
		return t, err
	}
	before, sessions, err := s.readMeters(ctx, crew)
	if err != nil {
		return t, err
	}
	t.sessions = make(map[int]time.Duration)
	for end := time.Now().Add(length); ; {
		rest := time.Until(end)
		if err := wait(ctx, min(rest, time.Second)); err != nil {
			return t, err
		}
		after, now, err := s.readMeters(ctx, crew)
		if err != nil {
			return t, err
		}
		for pid, used := range now { // now and then, because sessions end
			t.sessions[pid] = used - sessions[pid]
		}
		if rest <= time.Second {
			t.took, t.handled, t.server, t.unmetered = after.took-before.took, after.handled-before.handled, after.server-before.server, after.unmetered
			return t, nil
		}
	}
}

// began is a time before all measurements.
var began = time.Now()

// readMeters returns the state of all meters: took is the time since began.
func (s *site) readMeters(ctx context.Context, crew harness.Crew) (t turn, sessions map[int]time.Duration, err error) {
	r, err := s.Read(ctx, s.system)
	if err != nil {
		return t, nil, err
	}
	sessions, err = s.Postgres.SessionCPU(ctx, dashboardSession)
	return turn{took: time.Since(began), handled: crew.Handled(), server: r.CPU, unmetered: !r.Timed}, sessions, err
}

// part is the turns with sessions, or those without.
type part struct {
	turn
	session time.Duration // processor time of the dashboard's database sessions
}

func (p *part) add(t turn) {
	p.took += t.took
	p.handled += t.handled
	p.server += t.server
	p.unmetered = t.unmetered
	for _, used := range t.sessions {
		p.session += used
	}
}

func (p *part) figures(name string) []result.Figure {
	figures := []result.Figure{{Case: name, Metric: result.Throughput, Value: p.rate()}}
	if p.unmetered || p.handled == 0 {
		return figures
	}
	return append(figures,
		result.Figure{Case: name, Metric: result.ServerCPU, Value: float64(p.server.Microseconds()) / float64(p.handled)},
		result.Figure{Case: name, Metric: result.SessionCPU, Value: 100 * p.session.Seconds() / p.took.Seconds()})
}
