package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/errandhq/errand/queue"
)

var stateNames = [heldStates]string{"ended", "waiting", "running", "lost", "finished", "settling", "refused"}

func (s heldState) String() string { return stateNames[s] }

// heldModel is a heldJobs with the jobs that were added to it, those that ended included.
type heldModel struct {
	heldJobs
	added []*heldJob
}

func newHeldModel(n int) *heldModel {
	m := new(heldModel)
	jobs := make([]*queue.Job, n)
	for i := range jobs {
		jobs[i] = &queue.Job{ID: int64(i + 1)}
	}
	now := time.Now()
	added := m.add(jobs, now, now.Add(time.Minute))
	for i := range added {
		m.added = append(m.added, &added[i])
	}
	return m
}

// heldMoves are the methods that may change the state of a job.
var heldMoves = map[string]func(m *heldModel, h *heldJob){
	"start": func(m *heldModel, h *heldJob) {
		m.start(h, slot("goroutine 1 ["), m.newContext(context.Background(), nil), func(error) {})
	},
	"release":    func(m *heldModel, h *heldJob) { m.release(h) },
	"abandon":    func(m *heldModel, h *heldJob) { m.abandon(h) },
	"lose":       func(m *heldModel, h *heldJob) { m.lose(h) },
	"finish":     func(m *heldModel, h *heldJob) { m.finish(h, runEnd{}) },
	"settleSelf": func(m *heldModel, h *heldJob) { m.finish(h, runEnd{isSettled: true}) },
	"take":       func(m *heldModel, _ *heldJob) { m.take(1, 1) },
	"putBack":    func(m *heldModel, h *heldJob) { m.putBack([]*heldJob{h}) },
	"setAside":   func(m *heldModel, h *heldJob) { m.setAside(h) },
	"settled":    func(m *heldModel, h *heldJob) { m.settled(h) },
}

// situation is all of a job that decides what a move does.
type situation struct {
	state heldState
	busy  bool
}

func situationOf(h *heldJob) situation { return situation{h.state, h.isBusy()} }

func (s situation) String() string { return fmt.Sprintf("%v, busy %v", s.state, s.busy) }

// legalMoves are the moves that change something, by situation. No other move may.
var legalMoves = map[situation]map[string]situation{
	{stateWaiting, false}: {
		"start": {stateRunning, true}, "release": {stateFinished, false}, "lose": {stateEnded, false},
	},
	{stateRunning, true}: {
		"finish": {stateFinished, false}, "settleSelf": {stateEnded, false},
		"lose": {stateLost, true}, "abandon": {stateFinished, true},
	},
	{stateLost, true}:      {"finish": {stateEnded, false}, "settleSelf": {stateEnded, false}},
	{stateFinished, false}: {"take": {stateSettling, false}},
	{stateSettling, false}: {
		"putBack": {stateFinished, false}, "setAside": {stateRefused, false}, "settled": {stateEnded, false},
	},
	{stateRefused, false}: {"settled": {stateEnded, false}},
	{stateEnded, false}:   {},

	// The handler of an abandoned job may return at any time, and changes the job no more.
	{stateFinished, true}: {
		"take": {stateSettling, true}, "finish": {stateFinished, false}, "settleSelf": {stateFinished, false},
	},
	{stateSettling, true}: {
		"putBack": {stateFinished, true}, "setAside": {stateRefused, true}, "settled": {stateEnded, true},
		"finish": {stateSettling, false}, "settleSelf": {stateSettling, false},
	},
	{stateRefused, true}: {
		"settled": {stateEnded, true}, "finish": {stateRefused, false}, "settleSelf": {stateRefused, false},
	},
	{stateEnded, true}: {"finish": {stateEnded, false}, "settleSelf": {stateEnded, false}},
}

// check compares the counters and the lists with the jobs themselves.
func (m *heldModel) check(t *testing.T, after string) {
	t.Helper()
	var count [heldStates]int
	busy, held, byJob := 0, 0, make(map[*queue.Job]*heldJob)
	for h := range m.all() {
		byJob[h.job] = h
	}
	for _, h := range m.added {
		count[h.state]++
		if h.isBusy() {
			busy++
		}
		if h.state != stateEnded {
			held++
			if byJob[h.job] != h {
				t.Errorf("after %s: job %d is %v and not held", after, h.job.ID, h.state)
			}
		}
		if listed := slices.Contains(append(m.failed, m.finished...), h); listed != (h.state == stateFinished) {
			t.Errorf("after %s: a job is %v, in the list of finished jobs: %v", after, h.state, listed)
		}
	}
	if count != m.count || busy != m.busy || held != len(byJob) {
		t.Errorf("after %s: counted %v, %d busy, %d held; the jobs are %v, %d busy, %d held",
			after, m.count, m.busy, len(byJob), count, busy, held)
	}
}

// TestHeldMoves tries every move in every situation that legal moves lead to.
func TestHeldMoves(t *testing.T) {
	paths := map[situation][]string{{stateWaiting, false}: {}}
	open := []situation{{stateWaiting, false}}
	for len(open) > 0 {
		from := open[0]
		open = open[1:]
		for name, move := range heldMoves {
			m := newHeldModel(1)
			for _, step := range paths[from] {
				heldMoves[step](m, m.added[0])
			}
			want, isLegal := legalMoves[from][name]
			if !isLegal {
				want = from
			}
			move(m, m.added[0])
			got := situationOf(m.added[0])
			if got != want {
				t.Errorf("%s of a job that is %v: got %v, want %v", name, from, got, want)
			}
			m.check(t, name)
			if _, seen := paths[want]; !seen {
				paths[want] = append(slices.Clone(paths[from]), name)
				open = append(open, want)
			}
		}
		if t.Failed() {
			return
		}
	}
	for s := range legalMoves {
		if _, seen := paths[s]; !seen {
			t.Errorf("no moves lead to %v", s)
		}
	}
}

// TestHeldCounts makes random moves of several jobs, and expects that nothing is miscounted.
func TestHeldCounts(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var names []string
	for name := range heldMoves {
		names = append(names, name)
	}
	slices.Sort(names)
	for range 2000 {
		m := newHeldModel(4)
		for range 30 {
			name := names[random.IntN(len(names))]
			heldMoves[name](m, m.added[random.IntN(len(m.added))])
			m.check(t, name)
		}
		if t.Failed() {
			return
		}
	}
}
