package processes

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/errandhq/errand/lab/chaos/internal/child"
	"github.com/errandhq/errand/lab/chaos/internal/clock"
	"github.com/errandhq/errand/lab/chaos/internal/harness"
	"github.com/errandhq/errand/lab/chaos/internal/peer"
	"github.com/errandhq/errand/lab/chaos/internal/scenario"
	"github.com/errandhq/errand/lab/chaos/internal/seed"
)

var clocks = scenario.Scenario{
	Number: 16,
	Name:   "clocks",
	What:   "workers and enqueuers with clocks an hour ahead, an hour behind and 90 s ahead, beside some with the right time",
	Alone:  true, // building the program with the shifted clock uses the whole CPU
	Run:    shiftClocks,
}

// shifts are how much the clocks are off, by place, of the workers and of the enqueuers.
var shifts = []time.Duration{time.Hour, -time.Hour, 90 * time.Second, 0}

const (
	leaseOfShifted = 2 * time.Second
	// ownFirst is the number of the first job of the harness itself. The enqueuers begin at their
	// place times numbersEach.
	ownFirst    = 9_000_000
	numbersEach = 1_000_000
)

// later is the delay of the enqueuers' jobs.
var later = child.Later{Least: time.Second, Most: 4 * time.Second}

func shiftClocks(ctx context.Context, h *harness.Harness) error {
	program, err := shiftedProgram(ctx, h)
	if err != nil {
		return err
	}
	crew, err := h.MixedCrew(len(shifts), func(place int) child.Work { return shiftedWork(h, program, place) })
	if err != nil {
		return err
	}
	var enqueuers []*child.Process
	for place := range shifts {
		e, err := h.Enqueuer(fmt.Sprintf("e%d.1", place+1), child.Enqueue{
			First: place * numbersEach, Rate: 10, Batch: 4, Later: later, Host: shiftedHost(program, place),
		})
		if err != nil {
			return err
		}
		enqueuers = append(enqueuers, e)
	}
	own, err := enqueueAt(ctx, h)
	if err != nil {
		return err
	}
	if err := killEachPlace(ctx, h, crew); err != nil {
		return err
	}
	for _, e := range enqueuers[1:] {
		if err := scenario.Stop(e); err != nil {
			return err
		}
	}
	f, book, err := scenario.Finish(ctx, h, crew, enqueuers[0])
	if err != nil {
		return err
	}
	return auditClocks(ctx, h, &timekeeper{harness: h, book: book, finding: f, own: own})
}

// shiftedProgram builds the program with the shifted clock.
func shiftedProgram(ctx context.Context, h *harness.Harness) (string, error) {
	dir := filepath.Join(h.Dir, "clock")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	begun := time.Now()
	program, err := clock.Build(ctx, dir)
	h.Row.Note("the program with the other clock took %.1f s to build", time.Since(begun).Seconds())
	return program, err
}

func shiftedHost(program string, place int) child.Host {
	return child.Host{Program: program, Environment: []string{clock.Shift(shifts[place])}}
}

// shiftedWork makes heartbeats count: the handler of every fourth job outlasts the lease. There are
// many more handlers than work, so that no job waits for one.
func shiftedWork(h *harness.Harness, program string, place int) child.Work {
	return child.Work{
		Worker:  peer.Worker{Concurrency: 32, Lease: leaseOfShifted, RetryAfter: retryAfter(h, place)},
		Handler: "clocks",
		Least:   leaseOfShifted + leaseOfShifted/4,
		Most:    harness.Size(h, 5*time.Second, 3500*time.Millisecond),
		Host:    shiftedHost(program, place),
	}
}

// retryAfter returns the delay that a place's handlers ask for when they fail. In a full run two
// places leave it to errand, which waits half a minute.
func retryAfter(h *harness.Harness, place int) time.Duration {
	const s = time.Second
	return harness.Size(h, [...]time.Duration{s, 0, 0, 2 * s}, [...]time.Duration{s, s, s / 2, s})[place]
}

// enqueueAt enqueues jobs that are due at a time, from this process, which has the server's clock.
func enqueueAt(ctx context.Context, h *harness.Harness) (map[int]time.Time, error) {
	source := h.Source("due")
	own := make(map[int]time.Time)
	var numbers []int
	for n := range 20 {
		own[ownFirst+n] = time.Now().Add(seed.Between(source, time.Second, 4*time.Second))
		numbers = append(numbers, ownFirst+n)
	}
	return own, h.EnqueueLater(ctx, peer.Plain, func(n int) peer.Due { return peer.Due{At: own[n]} }, numbers...)
}

// killEachPlace kills and replaces the worker of each place, once or more often.
func killEachPlace(ctx context.Context, h *harness.Harness, crew *harness.Crew) error {
	source := h.Source("kills")
	least, most := harness.Size(h, 4*time.Second, 500*time.Millisecond), harness.Size(h, 8*time.Second, 800*time.Millisecond)
	if err := h.Sleep(ctx, harness.Size(h, 5*time.Second, 1500*time.Millisecond)); err != nil {
		return err
	}
	for range harness.Size(h, 4, 1) {
		for _, place := range source.Perm(len(shifts)) {
			if err := h.Sleep(ctx, seed.Between(source, least, most)); err != nil {
				return err
			}
			if err := crew.Kill(ctx, place); err != nil {
				return err
			}
			if err := crew.Replace(place); err != nil {
				return err
			}
		}
	}
	return h.Sleep(ctx, harness.Size(h, 5*time.Second, time.Second))
}

func auditClocks(ctx context.Context, h *harness.Harness, k *timekeeper) error {
	if err := k.readDue(ctx); err != nil {
		return err
	}
	k.gather()
	k.checkClocks()
	early, late := k.early(), k.late()
	reclaimed, retries := k.falseReclaims()
	r := h.Row
	r.Check(len(early) == 0, "starts before the job was due: 0", "%s", harness.FirstFew(early))
	r.Check(len(reclaimed) == 0, "starts of jobs that were neither retried nor held by a killed worker: 0 beyond the first", "%s", harness.FirstFew(reclaimed))
	r.Check(k.lost() == 0, "jobs taken from a worker that lived: 0", "%d", k.lost())
	r.Duplicates -= retries
	checkRerun(k.harness, k.finding, leaseOfShifted)
	r.Check(len(late) == 0, fmt.Sprintf("starts more than %v after the job was due: 0", punctual), "%s", harness.FirstFew(late))
	k.checkCovered(retries)
	return nil
}
