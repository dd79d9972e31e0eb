package data

import (
	"context"
	"fmt"

	"github.com/errandhq/errand/lab/chaos/internal/harness"
	"github.com/errandhq/errand/lab/chaos/internal/scenario"
	"github.com/errandhq/errand/queue"
)

var race = scenario.Scenario{
	Number: 4,
	Name:   "race",
	What:   "a lease that has run out is reclaimed while its holder settles, in forced orders",
	Run:    raceReclaim,
}

// order is one way in which a settle and a reclaim of the same job can meet.
type order struct {
	name   string
	winner side
	run    func(ctx context.Context, t *trial) error
}

type side string

const (
	settling   side = "settling"
	reclaiming side = "reclaiming"
	either     side = "either"
)

// orders are all ways for two statements that each take a snapshot, lock the row and commit, and
// for a settle in a longer transaction.
var orders = []order{
	{"settle; reclaim", settling, func(ctx context.Context, t *trial) error {
		return inTurn(t.settle(ctx, nowhere), t.reclaim(ctx, nowhere))
	}},
	{"reclaim; settle", reclaiming, func(ctx context.Context, t *trial) error {
		return inTurn(t.reclaim(ctx, nowhere), t.settle(ctx, nowhere))
	}},
	{"settle has locked the row; reclaim; settle ends", settling, func(ctx context.Context, t *trial) error {
		return t.stopped(ctx, locked, t.settle(ctx, locked), t.reclaim(ctx, nowhere))
	}},
	{"reclaim has locked the row; settle waits for it; reclaim ends; settle ends", reclaiming, func(ctx context.Context, t *trial) error {
		var settled <-chan error
		err := t.stopped(ctx, locked, t.reclaim(ctx, locked), func() error {
			settled = t.begin(t.settle(ctx, nowhere))
			return t.awaitBlocked(ctx, settler, settled)
		})
		return inTurn(func() error { return err }, func() error { return <-settled })
	}},
	{"reclaim has seen the row; settle; reclaim ends", settling, func(ctx context.Context, t *trial) error {
		return t.stopped(ctx, seen, t.reclaim(ctx, seen), t.settle(ctx, nowhere))
	}},
	{"settle has seen the row; reclaim; settle ends", reclaiming, func(ctx context.Context, t *trial) error {
		return t.stopped(ctx, seen, t.settle(ctx, seen), t.reclaim(ctx, nowhere))
	}},
	{"reclaim; a rival claims; settle", reclaiming, func(ctx context.Context, t *trial) error {
		return inTurn(t.reclaim(ctx, nowhere), t.claim(ctx), t.settle(ctx, nowhere))
	}},
	{"settle has seen the row; reclaim; a rival claims; settle ends", reclaiming, func(ctx context.Context, t *trial) error {
		return t.stopped(ctx, seen, t.settle(ctx, seen), func() error { return inTurn(t.reclaim(ctx, nowhere), t.claim(ctx)) })
	}},
	{"reclaim has seen the row; settle has locked it; reclaim ends; settle ends", settling, func(ctx context.Context, t *trial) error {
		return t.stopped(ctx, locked, t.settle(ctx, locked), func() error {
			return t.stopped(ctx, seen, t.reclaim(ctx, seen), nothing)
		})
	}},
	{"settle in a transaction; reclaim; commit", settling, func(ctx context.Context, t *trial) error {
		return t.settleInTx(ctx, true, t.reclaim(ctx, nowhere))
	}},
	{"settle in a transaction; reclaim; rollback; reclaim", reclaiming, func(ctx context.Context, t *trial) error {
		return inTurn(func() error { return t.settleInTx(ctx, false, t.reclaim(ctx, nowhere)) }, t.reclaim(ctx, nowhere))
	}},
	{"settle and reclaim at once", either, func(ctx context.Context, t *trial) error {
		settled := t.begin(t.settle(ctx, nowhere))
		return inTurn(t.reclaim(ctx, nowhere), func() error { return <-settled })
	}},
}

func nothing() error { return nil }

func inTurn(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// ending is a way to end a job: an action, and whether completed jobs are kept.
type ending struct {
	verb queue.OutcomeAction
	kept bool
}

func (e ending) String() string {
	if !e.kept {
		return e.verb.String() + ", not kept"
	}
	return e.verb.String()
}

var endings = []ending{{queue.Done, true}, {queue.Done, false}, {queue.Retry, true}, {queue.Dead, true}, {queue.Release, true}}

// shortTrials is how many trials a short run has: each combination twice.
const shortTrials = 120

// combination returns the combination of trial i. All are equally frequent.
func combination(i int) (order, ending) {
	return orders[i%len(orders)], endings[i/len(orders)%len(endings)]
}

// tooMany is how many trials may fail before the scenario gives up.
const tooMany = 20

func raceReclaim(ctx context.Context, h *harness.Harness) error {
	track, err := newTrack(ctx, h)
	if err != nil {
		return err
	}
	defer track.close()
	trials := harness.Size(h, 1000, shortTrials)
	var wrong []string
	won := make(map[side]int)
	for _, i := range h.Source("orders").Perm(trials) {
		o, e := combination(i)
		winner, err := track.try(ctx, i, o, e)
		won[winner]++
		if err != nil {
			wrong = append(wrong, fmt.Sprintf("%s (%v): %v", o.name, e, err))
		}
		if len(wrong) == tooMany || ctx.Err() != nil {
			break
		}
	}
	ran := won[settling] + won[reclaiming] + won[""]
	h.Row.Jobs, h.Row.Faults, h.Row.Lost = 2*ran, ran, len(wrong)
	h.Row.Check(len(wrong) == 0, "finished rows changed, or outcomes lost: 0", "%s", harness.FirstFew(wrong))
	h.Row.Check(ran == trials, "interleavings forced: all", "%d of %d", ran, trials)
	h.Row.Check(won[settling] > 0 && won[reclaiming] > 0, "each side wins now and then", "settling %d times, reclaiming %d", won[settling], won[reclaiming])
	h.Row.Note("%d orders of settling and reclaiming with %d outcomes; each settling has a job with a lease that lasts beside it", len(orders), len(endings))
	return nil
}
