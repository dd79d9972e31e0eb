// Package runner puts systems through scenarios, each on a server of its own.
package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/errandhq/errand/lab/chaos/internal/child"
	"github.com/errandhq/errand/lab/chaos/internal/harness"
	"github.com/errandhq/errand/lab/chaos/internal/peer"
	"github.com/errandhq/errand/lab/chaos/internal/report"
	"github.com/errandhq/errand/lab/chaos/internal/scenario"
	"github.com/errandhq/errand/lab/chaos/internal/server"
	"github.com/errandhq/errand/lab/chaos/internal/stall"
	labreport "github.com/errandhq/errand/lab/internal/report"
)

// Options are what a run is to consist of.
type Options struct {
	Scenarios []scenario.Scenario
	Against   []string // systems besides errand
	Seed      uint64
	Short     bool
	Command   string    // that repeats the run
	Parallel  int       // how many scenarios are under way at a time; below 2 means one
	Logs      string    // folder for the logs of the servers, and of the processes, in one for each scenario; "" means none
	Progress  io.Writer // is written to by one goroutine at a time
}

// stage is what all scenarios of a run share.
type stage struct {
	Options
	servers *server.Servers
	ledgers *server.Postgres
}

// part is one scenario with one system.
type part struct {
	scenario.Scenario
	system peer.System
	again  bool // the first run of it was void
}

// id is the part's own among those of a run, as the name of a folder or of a database.
func (p part) id() string {
	id := strings.ReplaceAll(p.Name+"-"+p.system.Name, " ", "-")
	if p.again {
		id += "-again"
	}
	return id
}

// Run puts the systems through the scenarios. Those that must be alone run one after
// the other when the others have ended, and then, once more, those that a stall of the
// machine has made void. A scenario that could not be carried through
// is a row with an error; the error is for what made all of it impossible.
func Run(ctx context.Context, o Options) (rows []*report.Row, err error) {
	servers, err := server.NewServers(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, servers.Close()) }()
	if o.Logs != "" {
		if err := servers.KeepLogs(o.Logs); err != nil {
			return nil, err
		}
	}
	ledgers, err := servers.Start(ctx, "ledger", server.Careless)
	if err != nil {
		return nil, err
	}
	o.Progress = &writer{to: o.Progress}
	st := &stage{Options: o, servers: servers, ledgers: ledgers}
	parts := o.parts()
	rows = make([]*report.Row, len(parts))
	st.runAll(ctx, parts, rows, max(o.Parallel, 1), func(p part) bool { return !p.Alone })
	st.runAll(ctx, parts, rows, 1, func(p part) bool { return p.Alone })
	st.repeatVoid(ctx, parts, rows)
	return slices.DeleteFunc(rows, func(r *report.Row) bool { return r == nil }), ctx.Err()
}

// parts are all that the options ask for.
func (o Options) parts() (parts []part) {
	for _, s := range o.Scenarios {
		for _, system := range systems(s, o.Against) {
			parts = append(parts, part{Scenario: s, system: system})
		}
	}
	return parts
}

// systems are those that are put through the scenario: its own, and of the others those
// that are wanted, if it is for them, too.
func systems(s scenario.Scenario, against []string) (list []peer.System) {
	for _, system := range peer.Systems {
		if system.Name == cmp.Or(s.System, peer.Default) || s.Peers && slices.Contains(against, system.Name) {
			list = append(list, system)
		}
	}
	return list
}

// runAll runs some of the parts, so many at a time, and fills in their rows.
func (st *stage) runAll(ctx context.Context, parts []part, rows []*report.Row, parallel int, which func(part) bool) {
	var all sync.WaitGroup
	places := make(chan struct{}, parallel)
	for i, p := range parts {
		if !which(p) {
			continue
		}
		places <- struct{}{}
		all.Go(func() {
			if ctx.Err() == nil {
				rows[i] = st.run(ctx, p)
			}
			<-places
		})
	}
	all.Wait()
}

// repeatVoid runs those once more, alone, that the machine has made void.
func (st *stage) repeatVoid(ctx context.Context, parts []part, rows []*report.Row) {
	for i, row := range rows {
		if row == nil || row.Void == "" || ctx.Err() != nil {
			continue
		}
		again := parts[i]
		again.again = true
		rows[i] = st.run(ctx, again)
		rows[i].Note("run again: the first time failed %q, and %s", row.Why(), row.Void)
	}
}

// writer lets several goroutines write.
type writer struct {
	mu sync.Mutex
	to io.Writer
}

func (w *writer) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.to.Write(b)
}

// run is one scenario of one system, on a server of its own.
func (st *stage) run(ctx context.Context, p part) *report.Row {
	ctx, cancel := context.WithTimeout(ctx, limit(st.Short, p.system))
	defer cancel()
	row := &report.Row{Number: p.Number, Scenario: p.Name, What: p.What, System: p.system.Name, About: p.system.Text, Run: st.about(), RecoveryMS: -1}
	begun := time.Now()
	switch err := st.measured(ctx, p, row); {
	case errors.Is(err, server.ErrNoDisk):
		row.NotRun = "not: a full disk: " + err.Error()
	case err != nil:
		row.Error = err.Error()
	}
	row.TookMS = time.Since(begun).Milliseconds()
	fmt.Fprintf(st.Progress, "%d %s, %s: %s after %v\n", p.Number, p.Name, p.system.Name, row.Result(), time.Since(begun).Round(time.Second))
	return row
}

// about is what the rows of the run have in common.
func (st *stage) about() report.Run {
	return report.Run{Command: st.Command, Seed: st.Seed, Short: st.Short, Machine: labreport.Machine(), Date: time.Now().Format(time.DateOnly)}
}

// limit bounds a scenario that does not come to an end.
func limit(short bool, system peer.System) time.Duration {
	if short {
		return 4*time.Minute + 5*system.Slow
	}
	return 3 * time.Hour // the soak takes two
}

// remarkable is how long the machine may stand still without a word about it.
const remarkable = time.Second / 2

// measured plays while it is measured how the machine itself stands still.
func (st *stage) measured(ctx context.Context, p part, row *report.Row) error {
	meter, err := stall.Start(st.servers.Dir())
	if err != nil {
		return err
	}
	played := st.play(ctx, p, row)
	processor, disk, err := meter.Stop()
	if max(processor, disk) > remarkable {
		row.Stalled(fmt.Sprintf("the machine itself stood still meanwhile, for at most %.1f s of the processor and %.1f s of the disk", processor.Seconds(), disk.Seconds()))
	}
	return errors.Join(played, err)
}

func (st *stage) play(ctx context.Context, p part, row *report.Row) (err error) {
	c := harness.Config{Seed: st.Seed, Short: st.Short, System: p.system, Row: row, Dir: st.servers.Dir(), Progress: st.Progress}
	closeDatabase, err := st.database(ctx, p, &c)
	defer func() { err = errors.Join(err, closeDatabase()) }()
	if err != nil {
		return err
	}
	if err := st.ledgers.Create(ctx, p.id()); err != nil {
		return err
	}
	c.LedgerDSN = st.ledgers.URL(p.id())
	if c.Starter, err = st.starter(p); err != nil {
		return err
	}
	defer c.Starter.Close()
	h, err := harness.Open(ctx, c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	return p.Run(ctx, h)
}

// database makes what the system's database will be in: a folder, or a server, with a pooler in
// front of it where that belongs to the system. closing has to be called whatever the error.
func (st *stage) database(ctx context.Context, p part, c *harness.Config) (closing func() error, err error) {
	if p.system.File { // among the servers' data, which goes whatever becomes of this process
		dir := filepath.Join(st.servers.Dir(), p.id())
		c.File = filepath.Join(dir, harness.Database+".db")
		return func() error { return os.RemoveAll(dir) }, os.Mkdir(dir, 0o700)
	}
	if c.Server, err = st.serve(ctx, p); err != nil {
		return func() error { return nil }, err
	}
	c.AwaitDisconnect = c.Server.AwaitDisconnect
	if !p.system.Pooled {
		return c.Server.Close, nil
	}
	b, err := c.Server.StartBouncer(ctx, p.id()+"-bouncer")
	if err != nil {
		return c.Server.Close, err
	}
	c.Route, c.AwaitDisconnect = func(_, dsn string) (string, error) { return b.Route(dsn) }, b.AwaitDisconnect
	c.Row.Note("PgBouncer %s, %d connections to the server; errand polls", b.Version, server.PoolSize)
	return func() error { return errors.Join(b.Close(), c.Server.Close()) }, nil
}

// serve starts the scenario's server, on a disk of its own if that has bytes.
func (st *stage) serve(ctx context.Context, p part) (*server.Postgres, error) {
	if p.Disk > 0 {
		return st.servers.StartOnDisk(ctx, p.id(), settings(p.Scenario), p.Disk)
	}
	return st.servers.Start(ctx, p.id(), settings(p.Scenario))
}

// settings are those of the scenario's server.
func settings(s scenario.Scenario) map[string]string {
	settings := maps.Clone(server.Durable)
	maps.Copy(settings, s.Settings)
	return settings
}

// nursery is a part's own, with a folder for the logs, if there are to be any.
func (st *stage) starter(p part) (*child.Starter, error) {
	if st.Logs == "" {
		return child.NewStarter(""), nil
	}
	logs := filepath.Join(st.Logs, p.id())
	return child.NewStarter(logs), os.MkdirAll(logs, 0o755)
}
