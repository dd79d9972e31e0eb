package scenario

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/errandhq/errand/chaos/internal/child"
	"github.com/errandhq/errand/chaos/internal/lab"
	"github.com/errandhq/errand/chaos/internal/ledger"
	"github.com/errandhq/errand/chaos/internal/system"
	"github.com/errandhq/errand/chaos/internal/wire"
)

var cut = Scenario{
	Number: 12,
	Name:   "cut",
	What:   "connections are cut when what commits an enqueue has been sent: before it arrives, before it is answered, before the answer arrives",
	Run:    cutCommits,
}

// cuts are the moments that are drawn from.
var cuts = []wire.Fate{wire.CutUnsent, wire.CutUnanswered, wire.CutAnswered}

// client is an enqueuer and the proxy that cuts its connections.
type client struct {
	name  string
	how   child.Commit
	proxy *wire.Proxy
	child *child.Process

	mu   sync.Mutex
	cuts []wire.Fate // in their order
}

func cutCommits(ctx context.Context, l *lab.Lab) error {
	idle := idleClients()
	clients, err := newClients(l, append(cutClients(), idle...))
	defer func() {
		for _, c := range clients {
			_ = c.proxy.Close() // nothing depends on it any more
		}
	}()
	if err != nil {
		return err
	}
	cutting := clients[:len(clients)-len(idle)]
	budget := lab.Size(l, 1000, 200) / len(cutting)
	for _, c := range cutting {
		c.cutAtCommit(l, budget)
	}
	for _, c := range clients[len(cutting):] {
		c.cutIdle(l)
	}
	if err := letEnqueue(ctx, l, clients, cutting, budget); err != nil {
		return err
	}
	if err := checkCommits(ctx, l, cutting, clients[len(cutting):]); err != nil {
		return err
	}
	return workOff(ctx, l, len(cutting)*budget)
}

// cutClients are those whose connections are cut amid a commit.
func cutClients() (clients []*client) {
	for _, driver := range []string{"pgx", "postgres"} {
		for _, tx := range []bool{false, true} {
			for _, keyed := range []bool{false, true} {
				clients = append(clients, &client{
					name: fmt.Sprintf("%s tx %v keyed %v", driver, tx, keyed),
					how:  child.Commit{Driver: driver, Tx: tx, Keyed: keyed},
				})
			}
		}
	}
	return clients
}

// idleClients are those whose connections are cut in the pause after each call, so that
// nothing of the next can have been sent over them.
func idleClients() []*client {
	const pause = 20 * time.Millisecond
	return []*client{
		{name: "idle pgx", how: child.Commit{Driver: "pgx", Pause: pause}},
		{name: "idle pgx keyed", how: child.Commit{Driver: "pgx", Keyed: true, Pause: pause}},
		{name: "idle postgres", how: child.Commit{Driver: "postgres", Pause: pause}},
	}
}

// newClients makes the proxies of clients, and numbers their jobs apart.
func newClients(l *lab.Lab, clients []*client) (made []*client, err error) {
	const apart = 1_000_000
	l.Route = func(name, dsn string) (string, error) {
		for _, c := range clients {
			if c.name == name {
				return c.proxy.DSN(dsn)
			}
		}
		return dsn, nil
	}
	for i, c := range clients {
		c.how.First = i * apart
		if c.proxy, err = wire.Listen(l.Server.Address()); err != nil {
			return made, err
		}
		made = append(made, c)
	}
	return made, nil
}

// commits says whether a request commits what the client enqueues.
func (c *client) commits(r wire.Request) bool {
	if c.how.Tx {
		return r.Has("commit") || r.Has("COMMIT")
	}
	return r.Has("INSERT INTO")
}

// cutAtCommit cuts the client's connections until there have been enough cuts. One request
// of four passes.
func (c *client) cutAtCommit(l *lab.Lab, enough int) {
	draw := l.Source(c.name)
	c.proxy.Judged(func(r wire.Request) wire.Fate {
		c.mu.Lock()
		defer c.mu.Unlock()
		if !c.commits(r) || len(c.cuts) == enough {
			return wire.Pass
		}
		i := draw.IntN(len(cuts) + 1)
		if i == len(cuts) {
			return wire.Pass
		}
		c.cuts = append(c.cuts, cuts[i])
		return cuts[i]
	})
}

// cutIdle cuts the client's connection after every second call or so: pgx tries one that is new, or has been idle for
// more than a second, before it uses it again, and others it does not.
func (c *client) cutIdle(l *lab.Lab) {
	draw := l.Source(c.name)
	c.proxy.Judged(func(r wire.Request) wire.Fate {
		c.mu.Lock()
		defer c.mu.Unlock()
		if !c.commits(r) || draw.IntN(2) == 0 {
			return wire.Pass
		}
		c.cuts = append(c.cuts, wire.CutIdle)
		return wire.CutIdle
	})
}

func (c *client) cutsSoFar() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.cuts)
}

// letEnqueue runs the clients until all of the cuts have been made, and the idle ones have met
// a server that refuses connections, too.
func letEnqueue(ctx context.Context, l *lab.Lab, clients, cutting []*client, budget int) (err error) {
	for _, c := range clients {
		if c.child, err = l.Committer(c.name, c.how); err != nil {
			return err
		}
	}
	err = l.Until(ctx, 10*time.Minute, func() (bool, error) {
		for _, c := range cutting {
			if c.cutsSoFar() < budget {
				return false, nil
			}
		}
		return true, nil
	})
	if err != nil {
		for _, c := range cutting {
			err = fmt.Errorf("%w; %s: %d of %d cuts", err, c.name, c.cutsSoFar(), budget)
		}
		return fmt.Errorf("the cuts are not made: %w", err)
	}
	l.Say("%d cuts done", len(cutting)*budget)
	for _, c := range cutting {
		if err := stop(c.child); err != nil {
			return err
		}
	}
	return refuseIdle(ctx, l, clients[len(cutting):])
}

// refuseIdle lets the idle clients call a server at which nobody listens, some times each.
func refuseIdle(ctx context.Context, l *lab.Lab, idle []*client) error {
	const times = 10
	for _, c := range idle {
		if err := c.proxy.Refuse(); err != nil {
			return err
		}
	}
	err := l.Until(ctx, time.Minute, func() (bool, error) {
		book, err := l.Ledger.Read(ctx)
		for _, c := range idle {
			refused := count(book.Notes, func(e ledger.Entry) bool { return e.Worker == c.name && strings.Contains(e.Text, "refused") })
			if refused < times {
				return false, err
			}
		}
		return true, err
	})
	if err != nil {
		return fmt.Errorf("nobody is refused: %w", err)
	}
	for _, c := range idle {
		c.child.Kill() // one that has keys would try for ever
	}
	return nil
}

// checkCommits compares what the clients were told with what was done to them and with the table.
func checkCommits(ctx context.Context, l *lab.Lab, cutting, idle []*client) error {
	if err := sessionsEnded(ctx, l); err != nil {
		return err
	}
	book, err := l.Ledger.Read(ctx)
	if err != nil {
		return err
	}
	rows, err := rowsOfNumbers(ctx, l)
	if err != nil {
		return err
	}
	var v verdicts
	for _, c := range cutting {
		v.add(c, book, rows)
	}
	v.check(l)
	checkIdle(l, idle, book)
	return nil
}

// checkIdle demands that a call over which nothing can have been sent is not told that it is not known. lib/pq has
// one error for a connection that was broken before and one that broke afterwards: of those it is a note.
func checkIdle(l *lab.Lab, idle []*client, book ledger.Book) {
	var wrong []string
	for _, c := range idle {
		unknown, refused := 0, 0
		for _, e := range failuresOf(c, book) {
			switch {
			case strings.HasPrefix(e.Text, child.Known):
				refused++
			case c.how.Driver == "postgres" && strings.Contains(e.Text, driver.ErrBadConn.Error()):
				unknown++
			default:
				wrong = append(wrong, fmt.Sprintf("%s, job %d: %s", c.name, e.Number, e.Text))
			}
		}
		l.Row.Note("%s: of %d cuts of idle connections %d calls failed with ErrUnknown; %d that failed could not connect", c.name, c.cutsSoFar(), unknown, refused)
	}
	l.Row.Check(len(wrong) == 0, "ErrUnknown where nothing can have been sent: 0", "%s", lab.Few(wrong))
}

// sessionsEnded waits until the server has done what the clients had asked it for.
func sessionsEnded(ctx context.Context, l *lab.Lab) error {
	conn, err := pgx.Connect(ctx, l.Server.URL("postgres"))
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	return l.Until(ctx, time.Minute, func() (ended bool, err error) {
		err = conn.QueryRow(ctx, `SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE application_name LIKE '% tx %' OR application_name LIKE 'idle %')`).Scan(&ended)
		return ended, err
	})
}

// rowsOfNumbers counts the rows that each job has in the table.
func rowsOfNumbers(ctx context.Context, l *lab.Lab) (map[int]int, error) {
	jobs, err := l.System.Jobs(ctx, "")
	rows := make(map[int]int, len(jobs))
	for _, j := range jobs {
		rows[j.Number]++
	}
	return rows, err
}

func failuresOf(c *client, book ledger.Book) (failures []ledger.Entry) {
	for _, e := range book.Notes {
		if e.Worker == c.name {
			failures = append(failures, e)
		}
	}
	return failures
}

// verdicts are what was wrong with the clients' calls.
type verdicts struct {
	cuts, keys       int
	unpaired         []string // clients of which it is not each cut that failed a call, and nothing else
	keyed            []string // jobs with a key that do not have one row
	untyped, unasked []string // failures that are not of the kind they should be
	wrong            []string // jobs without a key that have other rows than the cut left them
}

// add looks at a client's calls: its cuts and failures are in the same order.
func (v *verdicts) add(c *client, book ledger.Book, rows map[int]int) {
	failures := failuresOf(c, book)
	v.cuts += len(c.cuts)
	if len(failures) != len(c.cuts) {
		v.unpaired = append(v.unpaired, fmt.Sprintf("%s: %d failures of %d cuts", c.name, len(failures), len(c.cuts)))
		return
	}
	for i, fate := range c.cuts {
		v.failure(c, fate, failures[i], rows)
	}
	for call := 0; ; call++ {
		numbers := c.how.CallOf(call)
		if numbers[0] > c.last(book, failures) {
			return
		}
		for _, n := range numbers {
			_, acked := book.Acked[n]
			switch {
			case c.how.Keyed:
				v.keys++
				if !acked || rows[n] != 1 {
					v.keyed = append(v.keyed, fmt.Sprintf("%s, job %d: acknowledged %v, %d rows", c.name, n, acked, rows[n]))
				}
			case acked && rows[n] != 1:
				v.wrong = append(v.wrong, fmt.Sprintf("%s, job %d: acknowledged, %d rows", c.name, n, rows[n]))
			}
		}
	}
}

// last is the highest number that the client has called with.
func (c *client) last(book ledger.Book, failures []ledger.Entry) (last int) {
	for n := range book.Acked {
		if n >= c.how.First && n < c.how.First+1_000_000 {
			last = max(last, n)
		}
	}
	for _, e := range failures {
		last = max(last, e.Number)
	}
	return last
}

// failure looks at one call that was cut.
func (v *verdicts) failure(c *client, fate wire.Fate, e ledger.Entry, rows map[int]int) {
	text := fmt.Sprintf("%s, job %d, %v: %s", c.name, e.Number, fate, e.Text)
	switch {
	case c.how.Tx && !strings.HasPrefix(e.Text, child.CommitFailed):
		v.unasked = append(v.unasked, text)
	case !c.how.Tx && !strings.HasPrefix(e.Text, child.Unknown):
		v.untyped = append(v.untyped, text)
	}
	if c.how.Keyed {
		return
	}
	numbers := c.how.CallOf((e.Number - c.how.First) / 2)
	for _, n := range numbers {
		if !leaves(fate, rows[n]) || rows[n] != rows[numbers[0]] {
			v.wrong = append(v.wrong, fmt.Sprintf("%s; %d rows of job %d", text, rows[n], n))
		}
	}
}

// leaves says whether a call that was cut like this may have left so many rows of a job. pgx asks the server,
// on another connection, to cancel what is not answered.
func leaves(fate wire.Fate, rows int) bool {
	switch fate {
	case wire.CutUnsent:
		return rows == 0
	case wire.CutAnswered:
		return rows == 1
	}
	return rows == 0 || rows == 1
}

func (v *verdicts) check(l *lab.Lab) {
	l.Row.Check(len(v.unpaired) == 0, "calls that failed: those that were cut, and no others", "%d cuts; others: %s", v.cuts, lab.Few(v.unpaired))
	l.Row.Check(len(v.keyed) == 0 && v.keys > 0, "keyed, enqueued again until acknowledged: exactly one row", "of %d keys not one: %s", v.keys, lab.Few(v.keyed))
	l.Row.Check(len(v.untyped) == 0, "unkeyed or keyed, without a transaction: each failure is ErrUnknown", "others: %s", lab.Few(v.untyped))
	l.Row.Check(len(v.unasked) == 0, "in a transaction: each failure is the commit's", "others: %s", lab.Few(v.unasked))
	l.Row.Check(len(v.wrong) == 0, "unkeyed: none of the call's jobs where it did not arrive, each once where it was answered, all or none else", "others: %s", lab.Few(v.wrong))
}

// workOff has all that was enqueued run, and audited.
func workOff(ctx context.Context, l *lab.Lab, faults int) error {
	crew, err := l.Crew(2, child.Work{Worker: system.Worker{Concurrency: 8}})
	if err != nil {
		return err
	}
	if err := errors.Join(l.Drain(ctx), crew.Stop()); err != nil {
		return err
	}
	f, _, err := l.Audit(ctx)
	if err != nil {
		return err
	}
	l.Row.Faults = faults
	l.Row.Check(f.Dup == 0, "duplicates 0", "%d", f.Dup)
	return nil
}
