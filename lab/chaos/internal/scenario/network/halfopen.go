package network

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/errandhq/errand/lab/chaos/internal/audit"
	"github.com/errandhq/errand/lab/chaos/internal/child"
	"github.com/errandhq/errand/lab/chaos/internal/harness"
	"github.com/errandhq/errand/lab/chaos/internal/peer"
	"github.com/errandhq/errand/lab/chaos/internal/scenario"
	"github.com/errandhq/errand/lab/chaos/internal/wire"
)

var halfOpen = scenario.Scenario{
	Number: 11,
	Name:   "halfopen",
	What:   "all connections swallow what is sent, for ever, during a claim, a settling, and while workers listen; new ones work, or hang for a while, too",
	Run:    swallowConnections,
	Settings: map[string]string{
		"max_connections": "1000", // the server keeps its ends of the connections
		// A transaction without its client keeps its jobs locked until the server aborts it.
		"idle_in_transaction_session_timeout": "10s",
	},
}

// resume is how soon every worker must start jobs again.
const resume = 30 * time.Second

// point is the moment at which a worker is struck: when the proxy has such a request, or has passed
// it on.
type point struct {
	name string
	is   func(wire.Request) bool
}

var (
	duringClaim    = point{"claim", func(r wire.Request) bool { return r.Has("lock_due(") }}
	duringSettling = point{"settle", func(r wire.Request) bool { return r.Has("status = 'completed', locked_at = NULL") }}
	// whileListening is the moment while a worker waits for notifications.
	whileListening = point{name: "listen"}
)

// swallowRound is a round of the scenario.
type swallowRound struct {
	points []point       // of the workers in turn
	hang   time.Duration // how long new connections hang, too
}

func (s swallowRound) idle() bool { return s.points[0].is == nil }

// proxiedWorkers are the workers behind their proxies.
type proxiedWorkers struct {
	harness  *harness.Harness
	proxies  []*wire.Proxy
	crew     *harness.Crew
	enqueuer *child.Process
	started  int       // how many enqueuers were started
	conn     *pgx.Conn // to read the table
	wedged   []string
	slowest  time.Duration
	name     string // of the slowest worker
}

func swallowConnections(ctx context.Context, h *harness.Harness) error {
	const lease = 3 * time.Second
	pw := &proxiedWorkers{harness: h}
	defer pw.close()
	if err := pw.open(ctx, lease); err != nil {
		return err
	}
	full := []swallowRound{
		{[]point{duringClaim}, 0}, {[]point{duringSettling}, 0}, {[]point{whileListening}, 0},
		{[]point{duringClaim}, 12 * time.Second}, {[]point{duringSettling}, 12 * time.Second}, {[]point{whileListening}, 12 * time.Second},
	}
	short := []swallowRound{{[]point{duringClaim, duringSettling}, 3 * time.Second}, {[]point{whileListening}, 0}}
	for range harness.Size(h, 3, 1) {
		for _, s := range harness.Size(h, full, short) {
			if err := pw.round(ctx, s); err != nil {
				return err
			}
		}
	}
	f, _, err := scenario.Finish(ctx, h, pw.crew, pw.enqueuer)
	if err != nil {
		return err
	}
	h.CheckDuplicates(f)
	h.Row.RecoveryMS = -1
	h.Row.CheckTime(len(pw.wedged) == 0, "workers that do not start and settle jobs again within 30 s: 0", "%s; the slowest took %.1f s, %s",
		harness.FirstFew(pw.wedged), pw.slowest.Seconds(), pw.name)
	h.Row.Note("leases of %v; two of four workers poll once an hour, so that they depend on what they listen to", lease)
	h.Row.Note("in every second round the jobs end in the transaction of their work; idle_in_transaction_session_timeout of 10 s")
	return nil
}

// open starts the workers, each behind its own proxy, and an enqueuer.
func (pw *proxiedWorkers) open(ctx context.Context, lease time.Duration) (err error) {
	const workers = 4
	if pw.conn, err = pgx.Connect(ctx, pw.harness.DSN()); err != nil {
		return err
	}
	for range workers {
		p, err := wire.Listen(pw.harness.Server.Address())
		if err != nil {
			return err
		}
		pw.proxies = append(pw.proxies, p)
	}
	pw.harness.Route = func(name, dsn string) (string, error) {
		var place, turn int
		if n, _ := fmt.Sscanf(name, "w%d.%d", &place, &turn); n < 2 {
			return dsn, nil
		}
		return pw.proxies[place-1].DSN(dsn)
	}
	pw.crew, err = pw.harness.MixedCrew(workers, func(place int) child.Work {
		w := child.Work{Worker: peer.Worker{Concurrency: 8, Lease: lease}, Least: 50 * time.Millisecond, Most: 150 * time.Millisecond}
		if place >= workers/2 {
			w.Poll = time.Hour
		}
		return w
	})
	if err != nil {
		return err
	}
	return pw.flow()
}

func (pw *proxiedWorkers) close() {
	if pw.conn != nil {
		_ = pw.conn.Close(context.Background()) // nothing was written
	}
	for _, p := range pw.proxies {
		_ = p.Close() // nothing uses it any more
	}
}

// flow starts an enqueuer, of both kinds in turn.
func (pw *proxiedWorkers) flow() (err error) {
	const apart = 10_000_000
	pw.started++
	kind := []peer.Kind{peer.InTx, peer.Plain}[pw.started%2]
	pw.enqueuer, err = pw.harness.Enqueuer(fmt.Sprint("enqueuer", pw.started), child.Enqueue{Kind: kind, First: pw.started * apart, Batch: 20, Ahead: 600})
	return err
}

// round strikes all workers and waits until they work again.
func (pw *proxiedWorkers) round(ctx context.Context, s swallowRound) error {
	if err := pw.harness.Sleep(ctx, harness.Size(pw.harness, 5*time.Second, 2*time.Second)); err != nil {
		return err
	}
	if s.idle() {
		if err := pw.fallIdle(ctx); err != nil {
			return err
		}
	}
	f := audit.Fault{What: "swallowed", At: time.Now()}
	if err := pw.strike(ctx, s); err != nil {
		return err
	}
	whole := time.Now() // since when new connections work
	held, err := pw.held(ctx)
	if err != nil {
		return err
	}
	if s.hang > 0 {
		if err := pw.harness.Sleep(ctx, s.hang); err != nil {
			return err
		}
		for _, p := range pw.proxies {
			p.Heal()
		}
		whole = time.Now()
	}
	if s.idle() {
		if err := pw.flow(); err != nil {
			return err
		}
	}
	err = pw.await(ctx, s, whole, held)
	f.Until = time.Now()
	pw.harness.RecordFault(f)
	if s.idle() || err != nil {
		return err
	}
	return errors.Join(scenario.Stop(pw.enqueuer), pw.flow()) // of the other kind
}

// fallIdle waits until the workers are idle, with all connections that they needed still open.
func (pw *proxiedWorkers) fallIdle(ctx context.Context) error {
	if err := scenario.Stop(pw.enqueuer); err != nil {
		return err
	}
	if err := pw.harness.Drain(ctx); err != nil {
		return err
	}
	return pw.harness.Sleep(ctx, 2*time.Second) // longer than pgx trusts an idle connection
}

// strike makes the connections of each worker swallow everything, at the worker's own moment. A
// draw decides whether the request of that moment is still passed on.
func (pw *proxiedWorkers) strike(ctx context.Context, s swallowRound) error {
	draw := pw.harness.Source(fmt.Sprint("strike", pw.started))
	var struck atomic.Int32
	for place, p := range pw.proxies {
		at := s.points[place%len(s.points)]
		fate := []wire.Fate{wire.Swallow, wire.SwallowAnswer}[draw.IntN(2)]
		if at.is == nil {
			if s.hang > 0 {
				p.Hold()
			}
			p.Swallow()
			struck.Add(1)
			continue
		}
		var once atomic.Bool
		p.SetJudge(func(r wire.Request) wire.Fate {
			if !at.is(r) || !once.CompareAndSwap(false, true) {
				return wire.Pass
			}
			if s.hang > 0 {
				p.Hold()
			}
			struck.Add(1)
			return fate
		})
	}
	err := pw.harness.WaitUntil(ctx, time.Minute, func() (bool, error) { return int(struck.Load()) == len(pw.proxies), nil })
	if err != nil {
		return fmt.Errorf("%d of %d workers are struck: %w", struck.Load(), len(pw.proxies), err)
	}
	return nil
}

// heldRun is one run of a job.
type heldRun struct{ number, attempt int }

// held returns the runs that the workers had claimed when they were struck, or a little later. A
// start of one of these does not show that a worker claims again.
func (pw *proxiedWorkers) held(ctx context.Context) (map[heldRun]bool, error) {
	held := make(map[heldRun]bool)
	for _, name := range pw.crew.Names() {
		jobs, err := pw.harness.Peer.Jobs(ctx, name)
		if err != nil {
			return nil, err
		}
		for _, j := range jobs {
			held[heldRun{j.Number, j.Attempt}] = true
		}
	}
	return held, nil
}

// await waits until every worker has started and settled jobs that it did not hold, and notes how
// long that took.
func (pw *proxiedWorkers) await(ctx context.Context, s swallowRound, since time.Time, held map[heldRun]bool) error {
	took := make(map[string]time.Duration)
	var looked time.Time
	err := pw.harness.WaitUntil(ctx, 4*resume, func() (bool, error) {
		if time.Since(looked) < 100*time.Millisecond {
			return false, nil
		}
		looked = time.Now()
		if err := pw.noteRecovered(ctx, since, held, took); err != nil {
			return false, err
		}
		return len(took) == len(pw.proxies) || time.Since(since) > 3*resume, nil
	})
	var all []string
	for place, w := range pw.crew.Names() {
		after := fmt.Sprintf("%s after %s", w, s.points[place%len(s.points)].name)
		if s.hang > 0 {
			after += " and hanging"
		}
		d, ok := took[w]
		text := fmt.Sprintf("%s %.1f s", after, d.Seconds())
		if !ok {
			text = after + " never"
		}
		all = append(all, text)
		if d > pw.slowest {
			pw.slowest, pw.name = d, after
		}
		if !ok || d > resume {
			pw.wedged = append(pw.wedged, text)
		}
	}
	pw.harness.Logf("%s", strings.Join(all, ", "))
	return err
}

// noteRecovered notes the workers that work again.
func (pw *proxiedWorkers) noteRecovered(ctx context.Context, since time.Time, held map[heldRun]bool, took map[string]time.Duration) error {
	starts, err := pw.harness.Ledger.StartsSince(ctx, since)
	if err != nil {
		return err
	}
	started := make(map[string]time.Time)
	for _, s := range slices.Backward(starts) {
		if !held[heldRun{s.Number, s.Attempt}] {
			started[s.Worker] = s.At
		}
	}
	rows, _ := pw.conn.Query(ctx, settledSQL, since) // ForEachRow returns the error, too
	var worker string
	var at time.Time
	_, err = pgx.ForEachRow(rows, []any{&worker, &at}, func() error {
		if first, ok := started[worker]; ok {
			if _, known := took[worker]; !known {
				took[worker] = max(at.Sub(since), first.Sub(since))
			}
		}
		return nil
	})
	return err
}

// settledSQL reads when each worker first settled a job after $1.
const settledSQL = `SELECT locked_by, min(updated_at) FROM errand.jobs WHERE status = 'completed' AND locked_by <> '' AND updated_at > $1 GROUP BY locked_by`
