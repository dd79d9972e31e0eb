// Package runner runs scenarios with systems, each on a server of its own.
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

	"github.com/errandhq/errand/backend/redis/redistest"
	"github.com/errandhq/errand/internal/progress"
	"github.com/errandhq/errand/lab/chaos/internal/child"
	"github.com/errandhq/errand/lab/chaos/internal/clock"
	"github.com/errandhq/errand/lab/chaos/internal/harness"
	"github.com/errandhq/errand/lab/chaos/internal/peer"
	"github.com/errandhq/errand/lab/chaos/internal/report"
	"github.com/errandhq/errand/lab/chaos/internal/scenario"
	"github.com/errandhq/errand/lab/chaos/internal/server"
	"github.com/errandhq/errand/lab/chaos/internal/stall"
	labreport "github.com/errandhq/errand/lab/internal/report"
)

// Options say what to run.
type Options struct {
	Scenarios []scenario.Scenario
	Against   []string // systems besides errand
	Seed      uint64
	Short     bool
	Command   string    // the command that repeats the run
	Parallel  int       // how many scenarios run at once; below 2 means one
	Logs      string    // folder for the logs of servers and processes, with a folder for each scenario; "" means none
	Progress  io.Writer // one goroutine at a time writes to it
}

// stage is what all scenarios of a run share.
type stage struct {
	Options
	servers *server.Servers
	ledgers *server.Postgres
	bar     *progress.Bar
}

// part is one scenario with one system.
type part struct {
	scenario.Scenario
	system peer.System
	again  bool // this repeats a void run
}

// id names the part's folder and database. It is unique in a run.
func (p part) id() string {
	id := strings.ReplaceAll(p.Name+"-"+p.system.Name, " ", "-")
	if p.again {
		id += "-again"
	}
	return id
}

// Run runs the scenarios with the systems. Scenarios that must be alone run at the end, one after
// the other. Then Run repeats the rows that a stall of the machine has made void. A scenario that
// could not be run to its end is a row with an error. Run returns an error if nothing could be run.
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
	ledgers, err := servers.Start(ctx, "ledger", server.NotDurable)
	if err != nil {
		return nil, err
	}
	parts := o.parts()
	bar := progress.New(o.Progress, "scenarios", len(parts))
	defer bar.Close()
	o.Progress = bar // which several goroutines may write to
	st := &stage{Options: o, servers: servers, ledgers: ledgers, bar: bar}
	rows = make([]*report.Row, len(parts))
	st.runAll(ctx, parts, rows, max(o.Parallel, 1), func(p part) bool { return !p.Alone })
	st.runAll(ctx, parts, rows, 1, func(p part) bool { return p.Alone })
	st.repeatVoid(ctx, parts, rows)
	return slices.DeleteFunc(rows, func(r *report.Row) bool { return r == nil }), ctx.Err()
}

// parts returns all parts that the options ask for.
func (o Options) parts() (parts []part) {
	for _, s := range o.Scenarios {
		for _, system := range systems(s, o.Against) {
			parts = append(parts, part{Scenario: s, system: system})
		}
	}
	return parts
}

// systems returns the systems for a scenario: its own, and the others of -against if it takes them.
func systems(s scenario.Scenario, against []string) (list []peer.System) {
	for _, system := range peer.Systems {
		if system.Name == cmp.Or(s.System, peer.Default) || s.Peers && slices.Contains(against, system.Name) {
			list = append(list, system)
		}
	}
	return list
}

// runAll runs the parts that which selects, as many at once as parallel, and fills in their rows.
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
				st.bar.Add(1)
			}
			<-places
		})
	}
	all.Wait()
}

// repeatVoid repeats, alone, the parts whose rows a stall of the machine has made void.
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

// run runs one scenario with one system, on a server of its own.
func (st *stage) run(ctx context.Context, p part) *report.Row {
	ctx, cancel := context.WithTimeout(ctx, limit(st.Short, p.system))
	defer cancel()
	row := &report.Row{Number: p.Number, Scenario: p.Name, What: p.What, System: p.system.Name, About: p.system.Text, Run: st.about(), RecoveryMS: -1}
	begun := time.Now()
	switch err := st.playMeasured(ctx, p, row); {
	case errors.Is(err, server.ErrNoDisk):
		row.NotRun = "not: a full disk: " + err.Error()
	case os.Getenv("CI") == "" && (errors.Is(err, redistest.ErrNoServer) || errors.Is(err, clock.ErrNoPreload)):
		row.NotRun = "not: " + err.Error()
	case err != nil:
		row.Error = err.Error()
	}
	row.TookMS = time.Since(begun).Milliseconds()
	fmt.Fprintf(st.Progress, "%d %s, %s: %s after %v\n", p.Number, p.Name, p.system.Name, row.Result(), time.Since(begun).Round(time.Second))
	return row
}

// about returns what the rows of the run have in common.
func (st *stage) about() report.Run {
	return report.Run{Command: st.Command, Seed: st.Seed, Short: st.Short, Machine: labreport.Machine(), Date: time.Now().Format(time.DateOnly)}
}

// limit bounds the time of a scenario.
func limit(short bool, system peer.System) time.Duration {
	if short {
		return 4*time.Minute + 5*system.Slow
	}
	return 3 * time.Hour // the soak takes two
}

// minStall is the shortest stall of the machine that is noted.
const minStall = time.Second / 2

// playMeasured plays the scenario, and meanwhile measures stalls of the machine.
func (st *stage) playMeasured(ctx context.Context, p part, row *report.Row) error {
	meter, err := stall.Start(st.servers.Dir())
	if err != nil {
		return err
	}
	played := st.play(ctx, p, row)
	processor, disk, err := meter.Stop()
	if max(processor, disk) > minStall {
		row.NoteStall(fmt.Sprintf("the machine itself stood still meanwhile, for at most %.1f s of the processor and %.1f s of the disk", processor.Seconds(), disk.Seconds()))
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

// database makes a place for the system's database: a folder, a Redis Cluster, or a server, with a
// pooler in front of it if the system uses one. The caller must call closing, even after an error.
func (st *stage) database(ctx context.Context, p part, c *harness.Config) (closing func() error, err error) {
	if p.system.File { // beside the servers' data, which is removed even if this process is killed
		dir := filepath.Join(st.servers.Dir(), p.id())
		c.File = filepath.Join(dir, harness.Database+".db")
		return func() error { return os.RemoveAll(dir) }, os.Mkdir(dir, 0o700)
	}
	if p.system.Cluster {
		return st.startCluster(ctx, p, c)
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

// startCluster starts a Redis Cluster. If the scenario has a Disk, each node gets a file system of
// its own.
func (st *stage) startCluster(ctx context.Context, p part, c *harness.Config) (closing func() error, err error) {
	o := redistest.Options{Durable: true, Settings: maps.Clone(clusterSettings), Splits: p.Splits}
	maps.Copy(o.Settings, p.Settings)
	if p.Disk > 0 {
		o.Prepare = func(dir string) error { return server.MountMemory(dir, p.Disk) }
	}
	if p.Clocks {
		if o.Environment, err = clock.Preload(ctx, st.servers.Dir()); err != nil {
			return func() error { return nil }, err
		}
		o.Prepare = func(dir string) error { return clock.Set(dir, 0) }
	}
	if c.Cluster, err = redistest.StartCluster(ctx, 3, 1, o); err != nil {
		return func() error { return nil }, err
	}
	c.Query = p.Query
	return c.Cluster.Close, nil
}

// clusterSettings are those that docs/redis.md advises, beside the ones that redistest has.
var clusterSettings = map[string]string{"cluster-require-full-coverage": "no"}

// serve starts the scenario's server. If the scenario has a Disk, the server gets a file system of
// its own.
func (st *stage) serve(ctx context.Context, p part) (*server.Postgres, error) {
	if p.Disk > 0 {
		return st.servers.StartOnDisk(ctx, p.id(), settings(p.Scenario), p.Disk)
	}
	return st.servers.Start(ctx, p.id(), settings(p.Scenario))
}

// settings returns the settings of the scenario's server.
func settings(s scenario.Scenario) map[string]string {
	settings := maps.Clone(server.Durable)
	maps.Copy(settings, s.Settings)
	return settings
}

// starter returns a starter for a part's processes, with a folder for their logs if the options ask
// for logs.
func (st *stage) starter(p part) (*child.Starter, error) {
	if st.Logs == "" {
		return child.NewStarter(""), nil
	}
	logs := filepath.Join(st.Logs, p.id())
	return child.NewStarter(logs), os.MkdirAll(logs, 0o755)
}
