package postgres_test

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/queue"
)

// planOf prepares a statement, makes its plan a generic one, and explains it.
func planOf(t *testing.T, conn *sql.Conn, text string, args ...string) string {
	t.Helper()
	exec(t, conn, "SET plan_cache_mode = force_generic_plan")
	exec(t, conn, "PREPARE planned AS "+text)
	defer exec(t, conn, "DEALLOCATE planned")
	execute := "EXECUTE planned"
	if len(args) > 0 {
		execute += " (" + strings.Join(args, ", ") + ")"
	}
	rows, err := conn.QueryContext(t.Context(), "EXPLAIN "+execute)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var plan strings.Builder
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(&plan, line)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return plan.String()
}

// costOf is what the planner thinks that the plan costs, all told.
func costOf(t *testing.T, plan string) (cost float64) {
	t.Helper()
	_, after, _ := strings.Cut(plan, "..")
	if _, err := fmt.Sscanf(after, "%f", &cost); err != nil {
		t.Fatalf("%v: %s", err, plan)
	}
	return cost
}

// TestPlans: the hot statements scan the index that their file names, in its order, if the plan is
// made once for all parameters: with the statistics of an empty table, of a full one, and stale
// ones.
func TestPlans(t *testing.T) {
	extent.Long(t)
	db := postgrestest.Open(t)
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	do := func(statements ...string) {
		for _, s := range statements {
			exec(t, conn, s)
		}
	}
	check := func(state string) {
		t.Helper()
		for _, c := range []struct {
			name, index string
			args        []string
		}{
			{"settle", "jobs_pkey", []string{"'{1,2}'", "'{1,1}'", "'{3}'", "'{1}'", "'{}'", "'w'", "true", "true", "true"}},
			{"settle_locked", "jobs_pkey", []string{"'{1,2}'", "'{1,1}'", "'w'"}},
			{"throttled", "jobs_pkey", []string{"'{1,2}'", "'{1,1}'", "'{w,w}'", "'{5,5}'"}},
			{"settle_done", "jobs_pkey", []string{"'{1,2}'", "'{1,1}'", "'w'", "true"}},
			{"settle_drop", "jobs_pkey", []string{"'{1,2}'", "'{1,1}'", "'w'", "true"}},
			{"extend", "jobs_pkey", []string{"'{1,2}'", "'{1,1}'", "'w'", "1000000"}},
			{"reassign", "jobs_pkey", []string{"'{1,2}'", "'{1,1}'", "'w'", "'{v,w}'"}},
			{"sleep", "jobs_pending_idx", []string{"'{default}'", "'w'", "1", "true"}},
			{"backlog", "jobs_pending_idx", nil},
			{"list", "jobs_running_idx", []string{"NULL", "'k'", "NULL", "9223372036854775807", "100", "false", "600000000", "NULL", "0", "NULL", "NULL", "NULL", "NULL", "true"}},
			{"list_slice", "jobs_pkey", []string{"NULL", "'k'", "NULL", "9223372036854775807", "100", "NULL", "'g'", "2", "NULL", "NULL", "NULL", "NULL", "true"}},
			{"list_stopped", "jobs_stopped_id_idx", []string{"'q'", "'k'", "NULL", "9223372036854775807", "100", "NULL", "'g'", "2", "NULL", "NULL", "NULL", "NULL", "true"}},
			{"list_stopped_of", "jobs_stopped_id_idx", []string{"'q'", "'k'", "NULL", "9223372036854775807", "100", "NULL", "'g'", "2", "NULL", "NULL", "NULL", "NULL", "true"}},
			{"list_stopped_rows", "jobs_pkey", []string{"'q'", "NULL", "NULL", "9223372036854775807", "100", "NULL", "NULL", "NULL", "NULL", "NULL", "NULL", "NULL", "true"}},
			{"delete", "jobs_pkey", []string{"'{1,2}'", "NULL", "'k'", "NULL", "NULL", "'{dead}'", "false"}},
			{"choose_ended", "jobs_pkey", []string{"NULL", "'k'", "NULL", "NULL", "'{completed}'", "0", "100000"}},
			{"prune", "jobs_stopped_idx", []string{"0", "0", "0", "false", "1"}},
		} {
			var text string
			switch c.name {
			case "list":
				text = postgres.ListOf(queue.StatusRunning)
			case "list_stopped":
				text = postgres.SliceOf(queue.Filter{Status: queue.StatusDead, Group: "g"})
			case "list_stopped_of":
				text = postgres.SliceOf(queue.Filter{Status: queue.StatusDead, Queue: "q", Kind: "k", Group: "g"})
			case "list_stopped_rows":
				text = postgres.SliceOf(queue.Filter{Status: queue.StatusDead, Queue: "q"})
			default:
				text = postgres.Statement(c.name)
			}
			plan := planOf(t, conn, text, c.args...)
			if !strings.Contains(plan, c.index) || strings.Contains(plan, "Seq Scan on jobs") {
				t.Errorf("%s, %s: want %s and no sequential scan, got\n%s", state, c.name, c.index, plan)
			}
			if cost := costOf(t, plan); cost > 50_000 { // from 100,000 on the server compiles plans, for longer than they run
				t.Errorf("%s, %s: want a cost of at most 50,000, got %v in\n%s", state, c.name, cost, plan)
			}
			if (c.index == "jobs_pending_idx" || c.index == "jobs_stopped_id_idx") && strings.Contains(plan, "Bitmap") { // which would be read to its end, and sorted
				t.Errorf("%s, %s: want %s walked in its order, got\n%s", state, c.name, c.index, plan)
			}
		}
		checkLockDue(t, conn, state)
	}
	fill := `INSERT INTO errand.jobs (kind, status, locked_by) SELECT 'k', CASE WHEN i % 2 = 0 THEN 'pending' ELSE 'completed' END::errand.job_status, 'w'
		FROM generate_series(1, 40000) i`
	check("new")
	do("VACUUM ANALYZE errand.jobs")
	check("analyzed while empty")
	do(fill)
	check("filled, statistics of the empty table")
	do("ANALYZE errand.jobs")
	check("analyzed while full")
	do("DELETE FROM errand.jobs", "VACUUM ANALYZE errand.jobs")
	check("analyzed when emptied")
	do(fill, "ANALYZE errand.jobs", "DELETE FROM errand.jobs WHERE status = 'pending'")
	check("statistics of a queue that has been drained")
	do("DELETE FROM errand.jobs", "ANALYZE errand.jobs", fill)
	check("analyzed when emptied and not vacuumed, filled again")
	do("DELETE FROM errand.jobs", `INSERT INTO errand.jobs (kind, status, priority, scheduled_at) SELECT 'k', 'pending', random() * 100,
		now() - random() * interval '1 day' FROM generate_series(1, 300000)`, "ANALYZE errand.jobs")
	check("full, and in no order")
	do("DELETE FROM errand.jobs", "VACUUM ANALYZE errand.jobs", "INSERT INTO errand.jobs (kind) SELECT 'k' FROM generate_series(1, 14)", "VACUUM ANALYZE errand.jobs")
	check("few jobs where a long backlog was worked off")
	checkCost(t, conn, "count_sample", "1")
	for _, name := range []string{"seq_page_cost", "random_page_cost"} { // as if the table were thirty times as long
		do(fmt.Sprintf("SELECT set_config('%s', (current_setting('%[1]s')::float * 30)::text, false)", name))
	}
	checkCost(t, conn, "few_pending", "NULL")
	checkCost(t, conn, "list_slice", "NULL", "'k'", "NULL", "9223372036854775807", "100", "NULL", "'g'", "2", "NULL", "NULL", "NULL", "NULL", "true")
	checkCost(t, conn, "backlog")
}

// checkCost: the plan of a statement costs too little for the server to compile it.
func checkCost(t *testing.T, conn *sql.Conn, name string, args ...string) {
	t.Helper()
	plan := planOf(t, conn, postgres.Statement(name), args...)
	if cost := costOf(t, plan); cost >= 100_000 { // jit_above_cost
		t.Errorf("%s, few jobs where a long backlog was worked off: want a cost below 100,000, got %v in\n%s", name, cost, plan)
	}
}

// checkLockDue: lock_due, whose plans EXPLAIN does not show, reads few rows more than it locks.
func checkLockDue(t *testing.T, conn *sql.Conn, state string) {
	t.Helper()
	tx, err := conn.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	exec(t, tx, "DISCARD PLANS")
	scans, rows, locked := readByLockDue(t, tx, "'{default}', NULL, 10, '1ms'")
	if scans != 0 || rows > locked+2 {
		t.Errorf("%s: lock_due locked %d rows in %d sequential scans and by reading %d rows, want none and %d at most", state, locked, scans, rows, locked+2)
	}
}

// readByLockDue calls lock_due. It returns how many rows that locks, and how it reads the table.
func readByLockDue(t *testing.T, tx *sql.Tx, args string) (scans, rows, locked int) {
	t.Helper()
	scans, rows = readBy(t, tx, func() {
		locked = value[int](t, tx, "SELECT cardinality(errand.lock_due("+args+"))")
	})
	return scans, rows, locked
}

// readBy returns how the statements of do, in the transaction, read the table.
func readBy(t *testing.T, tx *sql.Tx, do func()) (scans, rows int) {
	t.Helper()
	read := func() (scans, rows int) {
		err := tx.QueryRowContext(t.Context(), `SELECT seq_scan, idx_tup_fetch FROM pg_stat_xact_user_tables
			WHERE schemaname = 'errand' AND relname = 'jobs'`).Scan(&scans, &rows)
		if err != nil {
			t.Fatal(err)
		}
		return scans, rows
	}
	scans, rows = read()
	do()
	nowScans, nowRows := read()
	return nowScans - scans, nowRows - rows
}

// touched is how many pages a statement touches; what it changes is undone. The statement has run
// before in its session, which reads many pages of the catalog for the first plan.
func touched(t *testing.T, db *sql.DB, text string, args ...any) int {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	exec(t, tx, "SET LOCAL plan_cache_mode = force_generic_plan")
	var plans []struct {
		Plan struct {
			Hit  int `json:"Shared Hit Blocks"`
			Read int `json:"Shared Read Blocks"`
		}
	}
	text = "EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) " + text
	exec(t, tx, "SAVEPOINT before")
	value[string](t, tx, text, args...)
	exec(t, tx, "ROLLBACK TO before")
	plan := value[string](t, tx, text, args...)
	if err := json.Unmarshal([]byte(plan), &plans); err != nil || len(plans) != 1 {
		t.Fatalf("%v: %s", err, plan)
	}
	return plans[0].Plan.Hit + plans[0].Plan.Read
}

// TestClaimsStopAtWhatIsNotDue: scheduled jobs in three priorities cost a claim a few pages,
// however many there are.
func TestClaimsStopAtWhatIsNotDue(t *testing.T) {
	const scheduled = 20_000
	const perPriority = 12 // pages: two look-ups
	for _, due := range []int{0, 10} {
		t.Run(fmt.Sprint(due), func(t *testing.T) {
			db := postgrestest.Open(t)
			pages := func() (claim, tx int) {
				return touched(t, db, postgres.Statement("claim"), "{default}", nil, 20, 1000000, "w", "{-2147483648}", "{-infinity}", "{0}", 65536, "{2147483647}", "{infinity}", true, 0),
					touched(t, db, postgres.Statement("claim_tx"), "{default}", nil, 0)
			}
			exec(t, db, "INSERT INTO errand.jobs (kind, priority) SELECT 'k', 5 FROM generate_series(1, $1::integer)", due)
			claimAlone, txAlone := pages()
			exec(t, db, `INSERT INTO errand.jobs (kind, priority, scheduled_at) SELECT 'k', i % 3 * 5, now() + interval '1 hour' + i * interval '1 ms'
				FROM generate_series(1, $1::integer) i`, scheduled)
			claimBeside, txBeside := pages()
			if claimBeside > claimAlone+3*perPriority || txBeside > txAlone+3*perPriority {
				t.Errorf("a claim touches %d pages alone and %d beside %d scheduled jobs, one in a transaction %d and %d",
					claimAlone, claimBeside, scheduled, txAlone, txBeside)
			}
		})
	}
}

// TestClaimsOfManyPriorities: a claim finds jobs in their order, however many priorities have only
// scheduled jobs.
func TestClaimsOfManyPriorities(t *testing.T) {
	db := postgrestest.Open(t)
	q := backend(t, db, postgres.Options{})
	exec(t, db, "INSERT INTO errand.jobs (kind, priority, scheduled_at) SELECT 'k', i, now() + interval '1 hour' FROM generate_series(1, 3000) i")
	want := []int32{10, 998, 999, 1000, 1001, 2000, 3000, 3001}
	for _, priority := range []int32{2000, 998, 1000, 3001, 999, 3000, 10, 1001} {
		enqueue(t, q, &queue.Job{Kind: "k", Priority: priority})
	}
	var got []int32
	for _, n := range []int{2, 10} {
		for _, job := range claim(t, q, n) {
			got = append(got, job.Priority)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("got the priorities %d, want %d", got, want)
	}
	enqueue(t, q, &queue.Job{Kind: "k", Priority: 1500})
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if job, err := q.ClaimTx(t.Context(), tx, request(1)); err != nil || job == nil || job.Priority != 1500 {
		t.Errorf("ClaimTx: got %v and %v, want the job of priority 1500", job, err)
	}
}

// TestLimitHoldsWhateverThePlan: a claim takes no more than its limit, and no row twice, whichever
// of nine plans the planner has to use.
func TestLimitHoldsWhateverThePlan(t *testing.T) {
	extent.Long(t)
	for _, off := range []string{
		"enable_tidscan", "enable_indexscan", "enable_seqscan", "enable_nestloop", "enable_hashjoin", "enable_mergejoin",
		"enable_bitmapscan", "enable_sort", "enable_material",
	} {
		t.Run(off, func(t *testing.T) {
			db := postgrestest.Open(t)
			db.SetMaxOpenConns(1)
			q := backend(t, db, postgres.Options{})
			exec(t, db, "SET "+off+" = off")
			exec(t, db, "SET jit = off") // forced plans cost so much that the server would compile them
			enqueue(t, q, jobs(1000)...)
			claimEverything(t, q, 1000)
		})
	}
}

func claimEverything(t *testing.T, q *postgres.Backend, n int) {
	t.Helper()
	seen := make(map[int64]bool)
	for len(seen) < n {
		got := claim(t, q, 100)
		if len(got) == 0 || len(got) > 100 {
			t.Fatalf("a claim of 100 took %d jobs, with %d left", len(got), n-len(seen))
		}
		for _, j := range got {
			if seen[j.ID] {
				t.Fatalf("job %d claimed twice", j.ID)
			}
			seen[j.ID] = true
		}
	}
}
