package doctor

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/errandhq/errand/internal/reach"
	"github.com/errandhq/errand/ops"
	"github.com/errandhq/errand/ops/internal/reader"
	"github.com/errandhq/errand/ops/internal/words"
	"github.com/errandhq/errand/queue/driver"
)

// The numbers of pages from which on claims are slow.
const (
	manyPages    = 250
	tooManyPages = 5_000
	// costQueues is how many queues claimCost looks into.
	costQueues = 20
)

// claimCost finds the queue whose claims read most pages. Entries of dead rows in the index cost
// claims most.
func claimCost(ctx context.Context, d *doctor) (finding, error) {
	if d.Inspector == nil {
		return finding{}, reader.ErrNotTold
	}
	counts, err := d.Inspector.Counts(ctx)
	if err != nil {
		return finding{}, err
	}
	var names []string
	for _, c := range counts {
		if !slices.Contains(names, c.Queue) && len(names) < costQueues {
			names = append(names, c.Queue)
		}
	}
	worst, most := "", 0
	for _, name := range names {
		pages, err := countPages(ctx, d.Server, name)
		if err != nil {
			return finding{}, err
		}
		if pages > most {
			worst, most = name, pages
		}
	}
	if worst == "" {
		return finding{value: "no jobs to claim"}, nil
	}
	return finding{words.LevelOf(most, manyPages, tooManyPages), fmt.Sprintf("a claim of the queue %s reads %s", worst, words.Count(most, "page")),
		"see the check drift for a missing index. If it finds none: end what the check horizon finds, let VACUUM run, then REINDEX INDEX CONCURRENTLY " + d.Server.Table("jobs_pending_idx")}, nil
}

// countPages returns how many pages a claim of the queue reads: what finds the oldest job of a kind
// that there is none of reads as much, for it passes over the first jobs of each priority.
func countPages(ctx context.Context, s *reader.Server, name string) (n int, err error) {
	const plan = "EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF, FORMAT JSON)\n"
	const noKind, priorities, jobs = "\n", 10, 100
	var text []byte
	err = s.Query(ctx, plan+s.Load("oldest"), func(r *sql.Rows) error { return r.Scan(&text) }, name, noKind, priorities, jobs)
	if err != nil {
		return 0, err
	}
	var plans []struct {
		Plan struct {
			Hit  int `json:"Shared Hit Blocks"`
			Read int `json:"Shared Read Blocks"`
		}
	}
	if err := json.Unmarshal(text, &plans); err != nil || len(plans) != 1 {
		return 0, fmt.Errorf("the plan of a claim cannot be read: %w", err)
	}
	return plans[0].Plan.Hit + plans[0].Plan.Read, nil
}

func notifyQueue(ctx context.Context, d *doctor) (finding, error) {
	var used float64
	if err := d.Server.Row(ctx, "notify_queue", &used); err != nil {
		return finding{}, err
	}
	return finding{words.LevelOf(used, 0.1, 0.5), fmt.Sprintf("%.0f %% of the server's queue of notifications is in use", used*100),
		"a session that listens has kept a transaction open: end it. Commits that notify fail when the queue is full"}, nil
}

// waits looks for sessions that wait for a transaction which has locked a table of errand's, or
// rows of it.
func waits(ctx context.Context, d *doctor) (finding, error) {
	if f, err := findLockedTable(ctx, d.Server); err != nil || f.level != "" {
		return f, err
	}
	const toldSince = 140000 // the server tells since when a session waits
	statement, isBlind, evidence := "waits", !d.Server.SeesAll, reader.Locker.Evidence
	if isBlind && d.Server.Identity.Version >= toldSince {
		statement, isBlind, evidence = "waits_seen", false, reader.Locker.WaitedFor
	}
	var holder reader.Locker
	waiting := 0
	err := d.Server.Rows(ctx, statement, func(r *sql.Rows) error {
		var l reader.Locker
		var n int
		err := r.Scan(append(l.Targets(), &n)...)
		if waiting == 0 && l.Lasts() { // statements of errand wait for each other for milliseconds
			holder, waiting = l, n
		}
		return err
	})
	switch {
	case err != nil:
		return finding{}, err
	case waiting > 0:
		return findWaitedRow(ctx, d.Server, holder, evidence(holder), waiting)
	case isBlind:
		return needsStats(d.Server, "no session is seen waiting"), nil
	}
	return finding{value: "no session waits long for a lock on errand's tables"}, nil
}

// findWaitedRow returns the finding for a transaction for which sessions wait. What it waits for
// itself comes first.
func findWaitedRow(ctx context.Context, s *reader.Server, holder reader.Locker, evidence string, waiting int) (finding, error) {
	chain, err := s.Chain(ctx, holder)
	if err != nil {
		return finding{}, err
	}
	verb := "wait"
	if waiting == 1 {
		verb = "waits"
	}
	if len(chain) > 1 {
		evidence = chain.Text()
	}
	return finding{ops.Warn, fmt.Sprintf("%s; %s %s for it", evidence, words.Count(waiting, "session"), verb), chain.Remedy()}, nil
}

func collation(ctx context.Context, d *doctor) (finding, error) {
	if d.Server.Identity.Version < 150000 {
		return finding{level: ops.Skipped, value: "the server does not tell before version 15"}, nil
	}
	var made, now string
	if err := d.Server.Row(ctx, "collation", &made, &now); err != nil {
		return finding{}, err
	}
	if made != now && made != "" {
		return finding{ops.Warn, fmt.Sprintf("the database was made with collation version %s, the host has %s", made, now),
			"indexes of texts may be in the wrong order: REINDEX DATABASE, then ALTER DATABASE … REFRESH COLLATION VERSION"}, nil
	}
	return finding{value: "the version with which the database was made"}, nil
}

// retained looks for jobs that should have been pruned.
func retained(ctx context.Context, d *doctor) (finding, error) {
	var completed, dead sql.NullFloat64
	if err := d.Server.Row(ctx, "retention", &completed, &dead); err != nil {
		return finding{}, err
	}
	return judgeRetention(d.Server.Tables.Retention, words.Seconds(completed.Float64), words.Seconds(dead.Float64)), nil
}

// pooler finds out whether a pooler gives each transaction a different connection to the server.
// Then two connections that are open at once have the same one in turn. PgBouncer gives the one
// that was released last, and with server_round_robin the one that was released first. Odyssey
// gives another one while it resets the last. So each connection asks both after itself and the
// other.
func pooler(ctx context.Context, d *doctor) (finding, error) {
	a, err := d.Server.Tables.DB.Conn(ctx)
	if err != nil {
		return finding{}, err
	}
	defer a.Close()
	b, err := d.Server.Tables.DB.Conn(ctx)
	if err != nil {
		return finding{}, err
	}
	defer b.Close()
	seen := make(map[int]*sql.Conn)
	for _, conn := range []*sql.Conn{a, b, a, a, b, b, a, b, a, a, b, b} {
		pid, err := readTxPid(ctx, d.Server, conn)
		lost := reach.Check(err)
		other, isSeen := seen[pid]
		switch {
		case lost != nil && lost.Answers: // by a pooler that keeps no prepared statements
			d.pooled = true
			return finding{ops.Warn, lost.Error(), lost.Advice + "; " + pooledAdvice(a, d.options.Tool)}, nil
		case err != nil:
			return finding{}, err
		case isSeen && other != conn:
			d.pooled = true
			return finding{ops.Warn, "a pooler in transaction mode is between this program and the server", pooledAdvice(a, d.options.Tool)}, nil
		}
		seen[pid] = conn
	}
	return finding{value: "no pooler in transaction mode"}, nil
}

// pooledAdvice says what does not work through a pooler in transaction mode. Outside transactions
// lib/pq sends a statement and its arguments apart, and its connection does not say how it is set.
// A tool does not know which driver the workers have.
func pooledAdvice(conn *sql.Conn, isTool bool) string {
	advice := "workers cannot listen through it: leave Options.Listen nil, or give them the URL of the server (docs/operations.md)"
	if isTool {
		return advice + ". Programs with lib/pq need binary_parameters=yes in the URL: without it their own statements outside transactions may run with the arguments of others"
	}
	_ = conn.Raw(func(driverConn any) error {
		if t := reflect.TypeOf(driverConn); t != nil && t.Kind() == reflect.Pointer && t.Elem().PkgPath() == "github.com/lib/pq" {
			advice += ". Unless lib/pq's URL has binary_parameters=yes, your own statements outside transactions may run with the arguments of others"
		}
		return nil
	})
	return advice
}

const backendPid = "SELECT pg_backend_pid()"

// readTxPid returns which process of the server the connection has in a transaction.
func readTxPid(ctx context.Context, s *reader.Server, conn *sql.Conn) (pid int, err error) {
	s.Note(backendPid)
	tx, err := conn.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return 0, err
	}
	defer func() { _ = tx.Rollback() }()
	err = tx.QueryRowContext(ctx, backendPid).Scan(&pid)
	return pid, err
}

// listen finds out whether a notification arrives that a different connection sends.
func listen(ctx context.Context, d *doctor) (finding, error) {
	waiter, ok := driver.As[driver.Waiter](d.Queue)
	if !ok {
		return finding{}, reader.ErrNotTold
	}
	if d.pooled && d.options.Tool {
		return finding{level: ops.Skipped, value: "a pooler is between this command and the server: whether workers listen is in their reports"}, nil
	}
	const name = "errand.doctor"
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	woken, ended := make(chan struct{}, 1), make(chan error, 1)
	var listening sync.WaitGroup
	listening.Go(func() {
		ended <- waiter.Listen(ctx, name, []string{name}, func(s driver.Signal) {
			if !s.Jobs {
				return
			}
			select {
			case woken <- struct{}{}:
			default:
			}
		})
	})
	defer func() { cancel(); listening.Wait() }()
	isListening, began := false, time.Now()
	for {
		select {
		case err := <-ended:
			if ctx.Err() != nil {
				return finding{}, ctx.Err()
			}
			return finding{level: ops.Skipped, value: "this program does not listen: " + fmt.Sprint(err)}, nil
		case <-woken:
			if isListening {
				took := time.Since(began)
				return finding{words.LevelOf(took, time.Second, time.Hour), fmt.Sprintf("a notification took %v", words.Short(took)), "the server is busy, or the network is slow"}, nil
			}
			isListening, began = true, time.Now()
			if err := notify(ctx, d.Server, name); err != nil {
				return finding{}, err
			}
		case <-ctx.Done():
			if !isListening {
				return finding{}, ctx.Err()
			}
			return finding{ops.Fail, "no notification arrives", "workers only poll: give them the URL of the server instead of that of a pooler, or leave Options.Listen nil (docs/operations.md)"}, nil
		}
	}
}

// notify notifies the listeners of a queue, in a transaction: a pooler would let lib/pq run the
// statement of another client.
func notify(ctx context.Context, s *reader.Server, name string) error {
	const text = "SELECT pg_notify($1, $2)"
	s.Note(text, s.Tables.Schema, name)
	tx, err := s.Tables.DB.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(ctx, text, s.Tables.Schema, name); err != nil {
		return err
	}
	return tx.Commit()
}
