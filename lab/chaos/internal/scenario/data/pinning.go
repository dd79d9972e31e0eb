package data

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/errandhq/errand/lab/chaos/internal/child"
	"github.com/errandhq/errand/lab/chaos/internal/harness"
	"github.com/errandhq/errand/lab/chaos/internal/ledger"
)

// pinning is what was measured before and while the xmin horizon was pinned.
type pinning struct {
	harness *harness.Harness
	// It is calm from begun to pinned. What happens from measured to over counts as pinned.
	begun, pinned, measured, over time.Time
	age                           int // of the xmin horizon at the end, in transactions
	book                          ledger.Book
	claims                        []child.ClaimTime // ordered by time
	acked, started                []time.Time       // of jobs, in order
}

// maxSlowdown is how many times slower the slowest claims may be.
const maxSlowdown = 3

func (p *pinning) check() error {
	if err := p.gather(); err != nil {
		return err
	}
	p.checkLoad()
	p.checkClaims()
	p.checkBacklog()
	return nil
}

// gather reads the claims from the notes, and sorts the acknowledgements and the first starts.
func (p *pinning) gather() error {
	for _, n := range p.book.Notes {
		text, ok := strings.CutPrefix(n.Text, child.Claims)
		if !ok {
			continue
		}
		var claims []child.ClaimTime
		if err := json.Unmarshal([]byte(text), &claims); err != nil {
			return fmt.Errorf("claims of %s: %w", n.Worker, err)
		}
		p.claims = append(p.claims, claims...)
	}
	slices.SortFunc(p.claims, func(a, b child.ClaimTime) int { return cmp.Compare(a[0], b[0]) })
	p.acked = slices.SortedFunc(maps.Values(p.book.Acked), time.Time.Compare)
	for _, s := range p.book.Starts {
		if s.Attempt == 1 {
			p.started = append(p.started, s.At)
		}
	}
	return nil
}

// checkLoad demands that there were enough jobs a second, and that the xmin horizon stood still.
func (p *pinning) checkLoad() {
	const share = 0.95
	calm, pinned := rate(p.acked, p.begun, p.pinned), rate(p.acked, p.measured, p.over)
	p.harness.Row.CheckTime(pinned >= share*rateOfPinned,
		fmt.Sprintf("enqueued while pinned, jobs a second: %d, of which 95 %%", rateOfPinned), "%.0f; %.0f calm", pinned, calm)
	least := (countBefore(p.acked, p.over) - countBefore(p.acked, p.measured)) / batchOfPinned
	p.harness.Row.Check(p.age >= least, "transactions since the horizon stands still: at least the enqueuers' calls", "%d ≥ %d", p.age, least)
}

func (p *pinning) checkClaims() {
	calm, calmN := p.percentile(p.begun, p.pinned)
	pinned, pinnedN := p.percentile(p.measured, p.over)
	p.harness.Row.CheckTime(calmN > 0 && pinnedN > 0 && pinned <= maxSlowdown*calm, "claim p99 ≤ 3 × calm", "%.1f ms calm, of %d; %.1f ms pinned, of %d: %.2f",
		milliseconds(calm), calmN, milliseconds(pinned), pinnedN, float64(pinned)/float64(max(calm, 1)))
	var quarters []string
	for from, to := range p.quarters() {
		took, _ := p.percentile(from, to)
		quarters = append(quarters, fmt.Sprintf("%.1f", milliseconds(took)))
	}
	p.harness.Row.Note("claim p99 by quarters of the time: %s ms", strings.Join(quarters, ", "))
}

// percentile returns the 99th percentile of the claims that returned between two times, and how
// many claims these were.
func (p *pinning) percentile(from, to time.Time) (took time.Duration, n int) {
	var all []time.Duration
	for _, c := range p.claims {
		if at := c.At(); !at.Before(from) && at.Before(to) {
			all = append(all, c.Took())
		}
	}
	if len(all) == 0 {
		return 0, 0
	}
	slices.Sort(all)
	return all[(len(all)*99+99)/100-1], len(all)
}

// quarters returns the quarters of the pinned time.
func (p *pinning) quarters() func(yield func(from, to time.Time) bool) {
	return func(yield func(from, to time.Time) bool) {
		quarter := p.over.Sub(p.measured) / 4
		for i := range time.Duration(4) {
			if !yield(p.measured.Add(i*quarter), p.measured.Add((i+1)*quarter)) {
				return
			}
		}
	}
}

// checkBacklog demands that the backlog at the end is at most the one at the beginning, and what is
// enqueued in a second. Each is a mean over a second.
func (p *pinning) checkBacklog() {
	begin, end := p.backlog(p.pinned.Add(-time.Second), p.pinned), p.backlog(p.over.Add(-time.Second), p.over)
	p.harness.Row.CheckTime(end <= begin+rateOfPinned, "backlog at the end ≤ at the beginning + what comes in a second", "%.0f ≤ %.0f + %d", end, begin, rateOfPinned)
	var quarters []string
	for from, to := range p.quarters() {
		quarters = append(quarters, fmt.Sprintf("%.0f", p.backlog(from, to)))
	}
	p.harness.Row.Note("backlog by quarters of the time: %s", strings.Join(quarters, ", "))
}

// backlog returns how many jobs had been acknowledged and not started, as a mean of ten samples a
// second.
func (p *pinning) backlog(from, to time.Time) float64 {
	sum, n := 0, 0
	for at := from; at.Before(to); at = at.Add(time.Second / 10) {
		sum += countBefore(p.acked, at) - countBefore(p.started, at)
		n++
	}
	return float64(sum) / float64(max(n, 1))
}

// countBefore returns how many of the sorted times are before at.
func countBefore(times []time.Time, at time.Time) int {
	n, _ := slices.BinarySearchFunc(times, at, time.Time.Compare)
	return n
}

// rate returns how many of these times there are in a second.
func rate(times []time.Time, from, to time.Time) float64 {
	return float64(countBefore(times, to)-countBefore(times, from)) / to.Sub(from).Seconds()
}

func milliseconds(d time.Duration) float64 { return d.Seconds() * 1000 }
