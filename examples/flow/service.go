package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/errandhq/errand/backend/dburl"
	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

const (
	tenants     = 200
	floodTenant = "tenant-001"
	floodJobs   = 50_000
	perTenant   = 2  // webhooks of a tenant that run at once
	perSecond   = 10 // webhooks of a tenant that start in a second, evenly
	atOnce      = 2  // but for so many after a pause

	accounts  = 40
	failEvery = 20 // one ledger entry in so many fails at its first attempt
)

// The kinds of jobs. GroupBy returns the tenant or the account of a job.
var (
	TenantWebhook = queue.Kind[Webhook]{
		Name:    "tenant.webhook",
		Queue:   "webhooks",
		Timeout: 10 * time.Second,
		GroupBy: func(w Webhook) string { return w.Tenant },
	}
	LedgerEntry = queue.Kind[Entry]{
		Name:        "ledger.entry",
		Queue:       "ledger",
		MaxAttempts: 20,
		Ordered:     true, // the entries of an account run one at a time, as they were enqueued
		GroupBy:     func(e Entry) string { return e.Account },
	}
	Pulse = queue.NewKind[struct{}]("pulse")
)

// limits are the rule of the webhooks' queue. It holds over all workers.
var limits = queue.Rule{
	Queue:     TenantWebhook.Queue,
	PerGroup:  perTenant,
	GroupRate: queue.Rate{Jobs: perSecond, Per: time.Second, Burst: atOnce},
}

// Webhook is the payload of TenantWebhook.
type Webhook struct {
	Tenant string `json:"tenant"`
	Event  int    `json:"event"`
}

// Entry is the payload of LedgerEntry.
type Entry struct {
	Account string `json:"account"`
	Number  int    `json:"number"` // from 1
}

// backend is what the service needs of a backend beyond a Queue.
type backend interface {
	queue.Queue
	driver.Ruler
	driver.Pauser
	driver.Canceller
	driver.Scheduler
	driver.Inspector
}

// counted is a backend that can wait for the claims that are under way.
type counted struct {
	backend
	claims sync.RWMutex // read-locked by each claim
}

func (c *counted) Claim(ctx context.Context, req queue.ClaimRequest) ([]*queue.Job, error) {
	c.claims.RLock()
	defer c.claims.RUnlock()
	return c.backend.Claim(ctx, req)
}

// Unwrap lets the worker find what else the backend can do.
func (c *counted) Unwrap() queue.Queue { return c.backend }

// service is the program under the rules.
type service struct {
	database    *dburl.Database
	backend     *counted
	receiverURL string
	client      *http.Client
	running     tally
	ledger      ledger
	pulses      pulses
}

// openService opens the database, migrates it, and sets the rule and the schedule.
func openService(ctx context.Context, databaseURL, receiverURL string) (s *service, err error) {
	d, err := dburl.Open(databaseURL, dburl.Options{})
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.Close())
		}
	}()
	if err := d.Migrate(ctx); err != nil {
		return nil, err
	}
	b, ok := d.Queue.(backend)
	if !ok {
		return nil, fmt.Errorf("%T has no rules, schedules or cancelling", d.Queue)
	}
	if err := b.SetRules(ctx, nil, limits); err != nil {
		return nil, err
	}
	every := Pulse.Schedule("pulse", "@every 1s", struct{}{})
	every.Missed = queue.MissedAll // so that the audit can ask for each tick
	if _, err := b.DeclareSchedules(ctx, nil, queue.Declaration{Schedules: []queue.Schedule{every}}); err != nil {
		return nil, err
	}
	return &service{database: d, backend: &counted{backend: b}, receiverURL: receiverURL, client: newClient()}, nil
}

func (s *service) close() { _ = s.database.Close() }

// newClient returns a client that keeps its connections.
func newClient() *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 200
	return &http.Client{Transport: transport}
}

// whileWorking runs two workers while f runs.
func (s *service) whileWorking(ctx context.Context, f func(ctx context.Context) error) error {
	mux := queue.NewMux()
	TenantWebhook.Handle(mux, s.deliver)
	LedgerEntry.Handle(mux, func(_ context.Context, job *queue.Job, e Entry) error { return s.ledger.write(job, e) })
	Pulse.Handle(mux, func(_ context.Context, job *queue.Job, _ struct{}) error { return s.pulses.note(job) })

	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var working sync.WaitGroup
	for range 2 {
		working.Go(func() {
			err := engine.Worker{
				Backend:     s.backend,
				Handler:     mux,
				Queues:      []string{queue.DefaultQueue, LedgerEntry.Queue, TenantWebhook.Queue},
				Concurrency: 40,
				// The plan makes entries fail: a line for each would be hundreds of lines.
				Logger: slog.New(slog.DiscardHandler),
			}.Run(ctx)
			if err != nil {
				stop(err)
			}
		})
	}
	err := f(ctx)
	stop(nil)
	working.Wait()
	if err == nil && !errors.Is(context.Cause(ctx), context.Canceled) {
		err = context.Cause(ctx)
	}
	return err
}

// deliver sends a webhook. If the job is cancelled meanwhile, ctx ends.
func (s *service) deliver(ctx context.Context, job *queue.Job, w Webhook) error {
	s.running.count(w.Tenant, 1)
	defer s.running.count(w.Tenant, -1)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.receiverURL+"/"+w.Tenant, bytes.NewReader(job.Payload))
	if err != nil {
		return err
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("receiver: %s", resp.Status)
	}
	return nil
}

// flood enqueues all jobs of one tenant.
func (s *service) flood(ctx context.Context) error {
	jobs := make([]*queue.Job, floodJobs)
	for i := range jobs {
		jobs[i] = TenantWebhook.New(Webhook{floodTenant, i + 1})
	}
	return s.backend.Enqueue(ctx, nil, jobs...)
}

// send enqueues webhooks of the other tenants, two a second each, and ledger entries, for so long.
func (s *service) send(ctx context.Context, lasting time.Duration) error {
	const step = 20 * time.Millisecond
	tick := time.NewTicker(step)
	defer tick.Stop()
	numbers := make([]int, accounts)
	for n := range int(lasting / step) {
		var jobs []*queue.Job
		for tenant := 2; tenant <= tenants; tenant++ {
			if (n+tenant)%25 == 0 {
				jobs = append(jobs, TenantWebhook.New(Webhook{fmt.Sprintf("tenant-%03d", tenant), n}))
			}
		}
		for range 4 {
			account := rand.IntN(accounts)
			numbers[account]++
			jobs = append(jobs, LedgerEntry.New(Entry{fmt.Sprintf("account-%02d", account), numbers[account]}))
		}
		if err := s.backend.Enqueue(ctx, nil, jobs...); err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// pauseWebhooks stops claims of webhooks. It returns when the last claim has ended that began
// before: each claim keeps the rules of its beginning.
func (s *service) pauseWebhooks(ctx context.Context) (paused time.Time, err error) {
	if _, err := s.backend.Pause(ctx, nil, queue.Target{Queue: limits.Queue}, true); err != nil {
		return paused, err
	}
	s.backend.claims.Lock()
	defer s.backend.claims.Unlock()
	return time.Now(), nil
}

// resumeWebhooks lets claims of webhooks go on.
func (s *service) resumeWebhooks(ctx context.Context) error {
	_, err := s.backend.Pause(ctx, nil, queue.Target{Queue: limits.Queue}, false)
	return err
}

// cancelFlood cancels what is left of the flood. It returns how many jobs that were.
func (s *service) cancelFlood(ctx context.Context) (int, error) {
	return s.backend.Cancel(ctx, nil, queue.Selection{Queue: TenantWebhook.Queue, Group: floodTenant})
}

func (s *service) stopSchedule(ctx context.Context) error {
	_, err := s.backend.Pause(ctx, nil, queue.Target{Schedule: "pulse"}, true)
	return err
}

func (s *service) inspector() driver.Inspector { return s.backend }
