// Package scenario holds what is done to a system, a file each.
//
// To add one, write a file with a variable of type [Scenario] and its Run function, and
// put the variable into [All]. Run has a [lab.Lab]: it starts processes (Crew,
// Enqueuer), strikes them or the server, tells the lab of each fault (Struck; Crew.Kill and
// Crew.Freeze do so themselves), lets the rest be worked off (Drain), and has it audited
// (Audit), which fills the row and demands that nothing is lost; what else is demanded it
// adds with Row.Check. What a worker's handler does is a function in package child, in a
// file of its own if it is more than a few lines, and in its table of handlers. Lab.Route
// puts something between a child and its server, such as a proxy of package wire. All that is
// random comes from Lab.Source; what differs in a short run, from lab.Size.
package scenario

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/errandhq/errand/chaos/internal/child"
	"github.com/errandhq/errand/chaos/internal/lab"
	"github.com/errandhq/errand/chaos/internal/report"
	"github.com/errandhq/errand/chaos/internal/server"
	"github.com/errandhq/errand/chaos/internal/stall"
	"github.com/errandhq/errand/chaos/internal/system"
)

// Scenario is a row of the table.
type Scenario struct {
	Number   int
	Name     string            // for -run
	What     string            // is done, for people
	Peers    bool              // other systems than errand can be put through it, too
	Settings map[string]string // of the server, beyond [server.Durable]
	Run      func(ctx context.Context, l *lab.Lab) error
}

// All are all there are.
var All = []Scenario{sigkill, freeze, once, race, terminate, crash, halfOpen, cut, isolation, limits, sigterm}

// Find finds a scenario by its name or number.
func Find(name string) (Scenario, bool) {
	for _, s := range All {
		if s.Name == name || strconv.Itoa(s.Number) == name {
			return s, true
		}
	}
	return Scenario{}, false
}

// Options are what a run is to consist of.
type Options struct {
	Scenarios []Scenario
	Against   []string // systems besides errand
	Seed      uint64
	Short     bool
	Logs      string // folder for the processes' logs; "" means none
	Progress  io.Writer
}

// stage is what all scenarios of a run share.
type stage struct {
	Options
	farm    *server.Farm
	ledgers *server.Postgres
	nursery *child.Nursery
	count   int // of the scenarios begun
}

// Run puts the systems through the scenarios, one after the other. A scenario that
// could not be carried through is a row with an error; the error is for what made all
// of it impossible.
func Run(ctx context.Context, o Options) (rows []*report.Row, err error) {
	farm, err := server.NewFarm(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, farm.Close()) }()
	ledgers, err := farm.Start(ctx, "ledger", server.Careless)
	if err != nil {
		return nil, err
	}
	st := &stage{Options: o, farm: farm, ledgers: ledgers, nursery: child.NewNursery(o.Logs)}
	defer st.nursery.Close()
	for _, s := range o.Scenarios {
		for i, about := range system.Systems {
			if ctx.Err() != nil {
				return rows, ctx.Err()
			}
			if i == 0 || s.Peers && slices.Contains(o.Against, about.Name) {
				rows = append(rows, st.run(ctx, s, about))
			}
		}
	}
	return rows, nil
}

// run is one scenario of one system, on a server of its own.
func (st *stage) run(ctx context.Context, s Scenario, about system.About) *report.Row {
	ctx, cancel := context.WithTimeout(ctx, limit(st.Short, about))
	defer cancel()
	row := &report.Row{Number: s.Number, Scenario: s.Name, What: s.What, System: about.Name, Seed: st.Seed, Short: st.Short, RecoveryMS: -1}
	begun := time.Now()
	if err := st.measured(ctx, s, about, row); err != nil {
		row.Error = err.Error()
	}
	row.Took = time.Since(begun)
	row.TookMS = row.Took.Milliseconds()
	verdict := "pass"
	if !row.Pass() {
		verdict = "FAIL"
	}
	fmt.Fprintf(st.Progress, "%d %s, %s: %s after %v\n", s.Number, s.Name, about.Name, verdict, row.Took.Round(time.Second))
	return row
}

// limit bounds a scenario that does not come to an end.
func limit(short bool, about system.About) time.Duration {
	if short {
		return 4*time.Minute + 5*about.Slow
	}
	return time.Hour
}

// remarkable is how long the machine may stand still without a word about it.
const remarkable = time.Second / 2

// measured plays while it is measured how the machine itself stands still.
func (st *stage) measured(ctx context.Context, s Scenario, about system.About, row *report.Row) error {
	meter, err := stall.Start(st.farm.Dir())
	if err != nil {
		return err
	}
	played := st.play(ctx, s, about, row)
	processor, disk, err := meter.Stop()
	if max(processor, disk) > remarkable {
		row.Note("the machine itself stood still meanwhile, for at most %.1f s of the processor and %.1f s of the disk", processor.Seconds(), disk.Seconds())
	}
	return errors.Join(played, err)
}

func (st *stage) play(ctx context.Context, s Scenario, about system.About, row *report.Row) (err error) {
	st.count++
	name := fmt.Sprintf("%s%d", s.Name, st.count)
	settings := maps.Clone(server.Durable)
	maps.Copy(settings, s.Settings)
	p, err := st.farm.Start(ctx, name, settings)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	row.Server = "PostgreSQL " + p.Version
	if err := st.ledgers.Create(ctx, name); err != nil {
		return err
	}
	l, err := lab.Open(ctx, lab.Config{
		Seed: st.Seed, Short: st.Short, About: about, Row: row, Server: p,
		LedgerDSN: st.ledgers.URL(name), Nursery: st.nursery, Progress: st.Progress,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	return s.Run(ctx, l)
}
