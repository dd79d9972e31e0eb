package postgres_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/queue"
)

// TestIdleWorkersDoNotAskForSchedules: after a worker has registered as sleeping, the backend
// answers from memory. The table is hidden meanwhile, so that a look would fail.
func TestIdleWorkersDoNotAskForSchedules(t *testing.T) {
	t.Parallel()
	db := postgrestest.Open(t)
	b := backend(t, db, postgres.Options{})
	fires := func(when string, want time.Duration) {
		t.Helper()
		fired, next, err := b.FireSchedules(t.Context())
		if fired != 0 || err != nil || next > want || next < want-time.Minute {
			t.Errorf("FireSchedules %s: got %d, next %v, error %v; want 0, %v", when, fired, next, err, want)
		}
	}
	asleep := func() {
		t.Helper()
		if _, err := b.Sleep(t.Context(), "w", []string{"q"}); err != nil {
			t.Fatal(err)
		}
		exec(t, db, `ALTER TABLE errand.schedules RENAME TO hidden`)
	}
	asleep()
	fires("without schedules", -1)
	exec(t, db, `ALTER TABLE errand.hidden RENAME TO schedules`)
	job := &queue.Job{Kind: "k"}
	if err := b.SetSchedules(t.Context(), nil, queue.Schedule{Name: "a", Spec: "@every 1h", Job: job}); err != nil {
		t.Fatal(err)
	}
	asleep()
	fires("before a tick", time.Hour)
	if err := b.SetSchedules(t.Context(), nil, queue.Schedule{Name: "a", Spec: "@every 1h", Job: job}); err == nil {
		t.Error("SetSchedules without a table: no error")
	}
	postgres.ForgetTick(b)
	if _, _, err := b.FireSchedules(t.Context()); err == nil || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("FireSchedules without a table: got error %v", err)
	}
}

// TestChangeWhileFallingAsleep: a worker falls asleep by a statement that has begun before
// schedules change and ends afterwards. The backend takes no answer of that time, but asks again.
func TestChangeWhileFallingAsleep(t *testing.T) {
	t.Parallel()
	db, b, _ := listening(t)
	other := backend(t, db, postgres.Options{})
	tx, err := db.BeginTx(t.Context(), nil) // the registration waits for it
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(t.Context(), `INSERT INTO errand.sleepers (queue, worker, registration) VALUES ('default', 'w', 0)`); err != nil {
		t.Fatal(err)
	}
	slept := make(chan error, 1)
	go func() {
		_, err := b.Sleep(t.Context(), "w", []string{"default"})
		slept <- err
	}()
	eventually(t, "the registration waits", func() bool {
		return value[bool](t, db, `SELECT EXISTS (SELECT FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock')`)
	})
	before := postgres.TickChanges(b)
	if err := other.SetSchedules(t.Context(), nil, queue.Schedule{Name: "a", Spec: "@every 1h", Job: &queue.Job{Kind: "k"}}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the change is notified", func() bool { return postgres.TickChanges(b) > before })
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := <-slept; err != nil {
		t.Fatal(err)
	}
	if _, next, err := b.FireSchedules(t.Context()); next < 50*time.Minute || err != nil {
		t.Errorf("FireSchedules: next tick in %v, %v; want just below an hour", next, err)
	}
}

// TestBrokenSchedules: schedules that cannot be fired are named, and do not keep others from being
// fired: their rows are no schedules, or their jobs cannot be enqueued.
func TestBrokenSchedules(t *testing.T) {
	t.Parallel()
	db := postgrestest.Open(t)
	b := backend(t, db, postgres.Options{})
	for i := range 12 {
		s := queue.Schedule{Name: fmt.Sprintf("s%d", i), Spec: "@every 1h", Job: &queue.Job{Queue: "q", Kind: fmt.Sprintf("k%d", i)}}
		if err := b.SetSchedules(t.Context(), nil, s); err != nil {
			t.Fatal(err)
		}
	}
	exec(t, db, `UPDATE errand.schedules SET spec = 'x' WHERE name = 's1'`)
	exec(t, db, `UPDATE errand.schedules SET zone = 'Mars/Phobos' WHERE name = 's2'`)
	exec(t, db, `UPDATE errand.schedules SET spec = '*/90 * * * *' WHERE name = 's6'`) // taken once
	exec(t, db, `UPDATE errand.schedules SET zone = 'localtime' WHERE name = 's7'`)
	exec(t, db, `UPDATE errand.schedules SET job = '[]' WHERE name = 's3'`)
	exec(t, db, `UPDATE errand.schedules SET job = '{}' WHERE name = 's4'`)
	exec(t, db, `ALTER TABLE errand.jobs ADD CONSTRAINT no_k5 CHECK (kind <> 'k5')`)
	exec(t, db, `UPDATE errand.schedules SET next_at = now()`)
	var problems []string
	fired := 0
	for range 20 {
		postgres.ForgetTick(b)
		n, _, err := b.FireSchedules(t.Context())
		fired += n
		if err != nil {
			problems = append(problems, err.Error())
		}
	}
	all := strings.Join(problems, "\n")
	for _, name := range []string{"s1", "s2", "s3", "s4", "s5", "s6", "s7"} {
		if !strings.Contains(all, `"`+name+`"`) {
			t.Errorf("no error names schedule %s: %s", name, all)
		}
	}
	jobs, err := b.Claim(t.Context(), queue.ClaimRequest{Queues: []string{"q"}, Limit: 20, Lease: time.Minute, Worker: "w"})
	if err != nil || len(jobs) != 5 {
		t.Errorf("jobs of five schedules beside seven broken ones: got %d, error %v", len(jobs), err)
	}
	records, err := b.Schedules(t.Context())
	if err != nil || len(records) != 12 {
		t.Errorf("Schedules: got %d, error %v; want 12", len(records), err)
	}
	for i := 1; i <= 7; i++ {
		if changed, err := b.Pause(t.Context(), nil, queue.Target{Schedule: "s" + strconv.Itoa(i)}, true); !changed || err != nil {
			t.Errorf("Pause of the broken schedule %d: got %v, error %v", i, changed, err)
		}
	}
}

// TestFiringDoesNotBlameSchedules: the session ends while schedules fire, or the server cannot
// serve it. No schedule is left alone for that, and the next call fires them, as one batch.
func TestFiringDoesNotBlameSchedules(t *testing.T) {
	t.Parallel()
	db := postgrestest.Open(t)
	b := backend(t, db, postgres.Options{})
	exec(t, db, `CREATE SEQUENCE failures`) // a rollback does not take back its numbers
	failOnce := func(statement string) {
		t.Helper()
		exec(t, db, `ALTER SEQUENCE failures RESTART`)
		exec(t, db, `CREATE OR REPLACE FUNCTION fail_once() RETURNS trigger LANGUAGE plpgsql AS $$
			BEGIN IF nextval('public.failures') = 1 THEN `+statement+`; END IF; RETURN NEW; END $$`)
	}
	failOnce(`NULL`)
	exec(t, db, `CREATE TRIGGER fail_once BEFORE INSERT ON errand.jobs FOR EACH ROW EXECUTE FUNCTION fail_once()`)
	statements := []string{`PERFORM pg_terminate_backend(pg_backend_pid())`}
	for _, code := range []string{"08006", "08P01", "57P01", "57P02", "57P03", "57P05", "53100", "53200", "53300", "58030", "25006"} {
		statements = append(statements, `RAISE EXCEPTION 'failed' USING ERRCODE = '`+code+`'`)
	}
	for _, statement := range statements {
		for n := 1; n <= 2; n++ {
			s := queue.Schedule{Name: fmt.Sprint("s", n), Spec: "@every 1h", Overlap: true, Job: &queue.Job{Queue: "q", Kind: "k"}}
			if err := b.SetSchedules(t.Context(), nil, s); err != nil {
				t.Fatal(err)
			}
			exec(t, db, `UPDATE errand.schedules SET next_at = now()`)
			failOnce(statement)
			postgres.ForgetTick(b)
			if fired, _, err := b.FireSchedules(t.Context()); fired != 0 || err == nil {
				t.Errorf("%s: FireSchedules: got %d, error %v; want 0 and an error", statement, fired, err)
			}
			if left := postgres.LeftSchedules(b); len(left) > 0 {
				t.Errorf("%s: left alone: %v", statement, left)
			}
			postgres.ForgetTick(b)
			if fired, _, err := b.FireSchedules(t.Context()); fired != n || err != nil {
				t.Errorf("%s: FireSchedules again: got %d, error %v; want %d", statement, fired, err, n)
			}
		}
		if _, err := b.DeleteSchedules(t.Context(), nil, "s1", "s2"); err != nil {
			t.Fatal(err)
		}
	}
}

// TestBusyWorkersHearOfSchedules: a worker that never sleeps, because its slots are full, fires a
// schedule that a different process has set.
func TestBusyWorkersHearOfSchedules(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	t.Parallel()
	db := postgrestest.Open(t)
	b, other := backend(t, db, postgres.Options{}), backend(t, db, postgres.Options{})
	busy := &queue.Job{Queue: "q", Kind: "k"}
	if err := b.Enqueue(t.Context(), nil, busy); err != nil {
		t.Fatal(err)
	}
	started, end := make(chan struct{}), make(chan struct{})
	w := engine.Worker{Backend: b, Queues: []string{"q"}, Concurrency: 1, Logger: slog.New(slog.DiscardHandler)}
	w.Handler = queue.HandlerFunc(func(context.Context, *queue.Job) error {
		close(started)
		<-end
		return nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	defer func() {
		cancel()
		close(end)
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	<-started
	if err := other.SetSchedules(t.Context(), nil, queue.Schedule{Name: "a", Spec: "@every 1s", Job: &queue.Job{Queue: "p", Kind: "k"}}); err != nil {
		t.Fatal(err)
	}
	for begun := time.Now(); time.Since(begun) < 10*time.Second; time.Sleep(50 * time.Millisecond) {
		all, err := other.Schedules(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if !all[0].LastTick.IsZero() {
			return
		}
	}
	t.Error("a busy worker has fired nothing in ten seconds")
}

// TestScheduleBesideKey: a transaction that holds the key of a schedule's job holds up that
// schedule only.
func TestScheduleBesideKey(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	t.Parallel()
	db := postgrestest.Open(t)
	b := backend(t, db, postgres.Options{})
	for _, name := range []string{"a", "b", "c"} {
		if err := b.SetSchedules(t.Context(), nil, queue.Schedule{Name: name, Spec: "@hourly", Job: &queue.Job{Queue: "q", Kind: name}}); err != nil {
			t.Fatal(err)
		}
	}
	exec(t, db, `UPDATE errand.schedules SET next_at = now()`)
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if err := b.Enqueue(t.Context(), tx, &queue.Job{Queue: "q", Kind: "x", Key: "cron:b"}); err != nil {
		t.Fatal(err)
	}
	fired := func(want int) {
		t.Helper()
		n := 0
		for end := time.Now().Add(10 * time.Second); n < want && time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
			postgres.ForgetTick(b)
			more, _, err := b.FireSchedules(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			n += more
		}
		if n != want {
			t.Errorf("fired %d schedules, want %d", n, want)
		}
	}
	fired(2)
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	fired(1)
}

// missAll sets n schedules each of which has missed more than a hundred ticks, with a payload of
// that many bytes. Ticks are a month apart: none comes while a test fires them.
func missAll(t *testing.T, db *sql.DB, b *postgres.Backend, n, bytes int) {
	t.Helper()
	payload := json.RawMessage(`"` + strings.Repeat("x", bytes) + `"`)
	for i := range n {
		s := queue.Schedule{Name: fmt.Sprintf("s%d", i), Spec: "0 0 1 * *", Missed: queue.MissedAll, Job: &queue.Job{Queue: "q", Kind: "k", Payload: payload}}
		if err := b.SetSchedules(t.Context(), nil, s); err != nil {
			t.Fatal(err)
		}
	}
	exec(t, db, `UPDATE errand.schedules SET next_at = next_at - interval '180 months'`)
}

// fireMissed fires until nothing is due, and returns how many jobs and bytes of jobs there are
// after each call.
func fireMissed(t *testing.T, db *sql.DB, b *postgres.Backend) (jobs, bytes []int) {
	t.Helper()
	for range 100 {
		_, next, err := b.FireSchedules(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var n, size int
		if err := db.QueryRowContext(t.Context(), `SELECT count(*), coalesce(sum(octet_length(payload::text)), 0) FROM errand.jobs`).Scan(&n, &size); err != nil {
			t.Fatal(err)
		}
		jobs, bytes = append(jobs, n), append(bytes, size)
		if next > 0 {
			return jobs, bytes
		}
	}
	t.Fatalf("a hundred calls of FireSchedules: more is due; jobs %v", jobs)
	return nil, nil
}

// wantMissed checks that each of n schedules has fired its last hundred ticks, each once.
func wantMissed(t *testing.T, db *sql.DB, n int) {
	t.Helper()
	var good int
	if err := db.QueryRowContext(t.Context(), `
		SELECT count(*) FROM (
			SELECT FROM errand.jobs
			GROUP BY headers ->> 'errand-schedule'
			HAVING count(*) = 100 AND count(DISTINCT headers ->> 'errand-tick') = 100
				AND min((headers ->> 'errand-tick')::timestamptz AT TIME ZONE 'UTC') + interval '99 months' = max((headers ->> 'errand-tick')::timestamptz AT TIME ZONE 'UTC')
		) AS good`).Scan(&good); err != nil || good != n {
		t.Errorf("schedules that have fired their last hundred ticks, each once: got %d, error %v; want %d", good, err, n)
	}
}

// patientConn is a connection of pgx whose transactions may be idle for another time than
// limitIdleTx says. So a batch is not halved because the machine is busy.
type patientConn struct {
	*stdlib.Conn
	idle string
}

func (c patientConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if strings.Contains(query, "idle_in_transaction_session_timeout") {
		query = "SET LOCAL idle_in_transaction_session_timeout = '" + c.idle + "'"
	}
	return c.Conn.ExecContext(ctx, query, args)
}

// patientConnector opens connections of that type.
type patientConnector struct {
	driver.Connector
	idle string
}

func (c patientConnector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return patientConn{conn.(*stdlib.Conn), c.idle}, nil
}

// patient connects to dsn. Transactions may be idle for that time.
func patient(t *testing.T, dsn, idle string) *sql.DB {
	t.Helper()
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(patientConnector{stdlib.GetConnector(*config), idle})
	t.Cleanup(func() { db.Close() })
	return db
}

// TestManyMissedTicks: however many ticks were missed, and however long their payloads are, one
// transaction enqueues at most a thousand jobs and eight megabytes. What is left stays due.
func TestManyMissedTicks(t *testing.T) {
	extent.Long(t)
	for _, c := range []struct{ schedules, bytes, calls int }{{25, 0, 3}, {3, 100_000, 4}} {
		db := patient(t, postgrestest.DSN(t), "1h")
		b := backend(t, db, postgres.Options{})
		missAll(t, db, b, c.schedules, c.bytes)
		jobs, bytes := fireMissed(t, db, b)
		for i := range jobs {
			newJobs, newBytes := jobs[i], bytes[i]
			if i > 0 {
				newJobs, newBytes = newJobs-jobs[i-1], newBytes-bytes[i-1]
			}
			if newJobs > 1000 || newBytes > 8<<20 {
				t.Errorf("call %d: got %d jobs with %d bytes, want at most 1000 with %d", i, newJobs, newBytes, 8<<20)
			}
		}
		if len(jobs) > c.calls {
			t.Errorf("%d schedules with %d bytes: took %d calls, want %d", c.schedules, c.bytes, len(jobs), c.calls)
		}
		wantMissed(t, db, c.schedules)
	}
}

// TestFiringShrinks: a batch that takes too long is halved, and not tried again as it is.
func TestFiringShrinks(t *testing.T) {
	t.Parallel()
	db := postgrestest.Open(t)
	b := backend(t, db, postgres.Options{})
	exec(t, db, `CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
			IF (SELECT count(*) FROM added) > 100 THEN RAISE EXCEPTION 'idle for too long' USING ERRCODE = '25P03'; END IF;
			RETURN NULL;
		END $$`)
	exec(t, db, `CREATE TRIGGER slow AFTER INSERT ON errand.jobs REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION slow()`)
	missAll(t, db, b, 5, 0)
	fireMissed(t, db, b)
	wantMissed(t, db, 5)
}

// TestFiringCutOff: if jobs take so long to be sent that the server ends the session, which breaks
// the connection while the driver writes, the batch is halved and sent again.
func TestFiringCutOff(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	t.Parallel()
	for _, w := range theseWays {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			dsn := postgrestest.DSN(t)
			db, _ := w.open(t, dsn)
			missAll(t, db, backend(t, db, postgres.Options{}), 1, 40_000)
			slow, _ := w.open(t, relayed(t, dsn, 3<<20, math.MaxInt))
			fireMissed(t, db, backend(t, slow, postgres.Options{}))
			wantMissed(t, db, 1)
		})
	}
}

// TestLockedSchedule: while a transaction has locked a schedule whose tick has come, a process asks
// for it less and less often, once a second in the end, and fires others in time.
func TestLockedSchedule(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	db := postgrestest.Open(t)
	b := backend(t, db, postgres.Options{})
	job := &queue.Job{Queue: "q", Kind: "k"}
	locked := queue.Schedule{Name: "a", Spec: "@hourly", Job: job}
	often := queue.Schedule{Name: "b", Spec: "@every 1s", Overlap: true, Job: job}
	if err := b.SetSchedules(t.Context(), nil, locked, often); err != nil {
		t.Fatal(err)
	}
	exec(t, db, `UPDATE errand.schedules SET next_at = now() WHERE name = 'a'`)
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(t.Context(), `SELECT FROM errand.schedules WHERE name = 'a' FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	call := func(end time.Time) (calls, fired int) {
		t.Helper()
		postgres.ForgetTick(b)
		for ; time.Now().Before(end); calls++ {
			n, next, err := b.FireSchedules(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			fired += n
			time.Sleep(min(next, time.Until(end)))
		}
		return calls, fired
	}
	if calls, fired := call(time.Now().Add(5 * time.Second)); calls > 60 || fired < 4 {
		t.Errorf("beside a locked schedule: got %d calls and %d ticks in 5 s, want at most 60, and 5", calls, fired)
	}
	if n, err := b.DeleteSchedules(t.Context(), nil, "b"); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if calls, _ := call(time.Now().Add(4 * time.Second)); calls > 12 {
		t.Errorf("beside nothing but a locked schedule: got %d calls in 4 s, want at most 12", calls)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if _, fired := call(time.Now().Add(1500 * time.Millisecond)); fired != 1 {
		t.Errorf("after the lock: got %d ticks, want 1", fired)
	}
}

// TestScheduleErrorsNameOnce: an error names the operation once.
func TestScheduleErrorsNameOnce(t *testing.T) {
	t.Parallel()
	db := postgrestest.Open(t)
	b := backend(t, db, postgres.Options{})
	exec(t, db, `ALTER TABLE errand.schedules RENAME TO hidden`)
	err := b.SetSchedules(t.Context(), nil, queue.Schedule{Name: "a", Spec: "@hourly", Job: &queue.Job{Kind: "k"}})
	if err == nil || strings.Count(err.Error(), "postgres: set schedules: ") != 1 {
		t.Errorf("SetSchedules without a table: got error %v, want one that names the operation once", err)
	}
}
