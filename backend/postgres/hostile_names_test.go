package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// TestHostileListen: a worker with a hostile name that listens for hostile queues is woken for
// each, and its registrations are removed.
func TestHostileListen(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	t.Parallel()
	for _, w := range theseWays {
		t.Run(w.name, func(t *testing.T) {
			db, listen := w.open(t, postgrestest.DSN(t))
			q := backend(t, db, postgres.Options{Listen: listen})
			var names []string
			for _, s := range hostile {
				if isName(s) {
					names = append(names, s)
				}
			}
			woken := listenAs(t, q, names[0], names)
			for _, name := range names {
				if _, err := q.Sleep(t.Context(), names[0], []string{name}); err != nil {
					t.Fatal(err)
				}
				enqueue(t, q, &queue.Job{Queue: name, Kind: "test"})
				await(t, woken)
				eventually(t, "the woken worker is off the list", func() bool {
					return value[int](t, db, `SELECT count(*) FROM errand.sleepers`) == 0
				})
			}
		})
	}
}

// listenAs is a Listen that is under way until the test ends, and signals woken.
func listenAs(t *testing.T, q *postgres.Backend, worker string, queues []string) (woken chan struct{}) {
	t.Helper()
	woken = make(chan struct{}, 1)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- q.Listen(ctx, worker, queues, func(s driver.Signal) {
			if !s.Jobs {
				return
			}
			select {
			case woken <- struct{}{}:
			default:
			}
		})
	}()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("Listen: %v", err)
		}
	})
	await(t, woken) // it says so when it begins
	return woken
}

// aSchema is what Options.Schema may be.
var aSchema = regexp.MustCompile(`\A[A-Za-z_][A-Za-z0-9_]{0,47}\z`)

// TestHostileSchemaRefused: the schema is the one name that is part of the statements' text, so New
// refuses hostile ones.
func TestHostileSchemaRefused(t *testing.T) {
	extent.Long(t)
	t.Parallel()
	db := postgrestest.Open(t)
	unchanged := sameCatalogue(t, db)
	for _, s := range append(unstorable, hostile...) {
		if aSchema.MatchString(s) {
			continue
		}
		o := postgres.Options{Schema: s}
		_, err := postgres.New(db, o)
		isRefused(t, "Schema", s, err)
		_, err = postgres.Migrations(o)
		isRefused(t, "Schema", s, err)
		isRefused(t, "Schema", s, postgres.Migrate(t.Context(), db, o))
	}
	unchanged()
}

// FuzzSchema: New accepts a schema if and only if it needs no escapes in either kind of quotes.
func FuzzSchema(f *testing.F) {
	for _, s := range []string{"errand", "Select_1", "1st", `x"; --`, "é", strings.Repeat("s", 48), strings.Repeat("s", 49), "a\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		steps, err := postgres.Migrations(postgres.Options{Schema: s})
		var bad *queue.InvalidError
		if want := s == "" || aSchema.MatchString(s); want != (err == nil) || !want && (!errors.As(err, &bad) || bad.Field != "Schema") {
			t.Errorf("%q: error %v, want ok %v", s, err, want)
		}
		for _, step := range steps {
			if s != "" && !strings.Contains(step.SQL, `"`+s+`".`) {
				t.Errorf("%q is not the schema of step %d", s, step.Version)
			}
		}
	})
}

// TestStrangeSchemas: names of schemas that pass the check work, whatever they mean elsewhere.
func TestStrangeSchemas(t *testing.T) {
	extent.Long(t)
	t.Parallel()
	dsn := postgrestest.DSN(t)
	for i, schema := range []string{"Errand", "ERRAND", "select", "user", "null", "_", "jobs", "enqueue", "pending", "excluded", strings.Repeat("x", 48)} {
		w := theseWays[i%len(theseWays)]
		t.Run(fmt.Sprint(schema, " ", w.name), func(t *testing.T) {
			db, listen := w.open(t, dsn)
			o := postgres.Options{Schema: schema, Listen: listen}
			if err := postgres.Migrate(t.Context(), db, o); err != nil {
				t.Fatal(err)
			}
			q := backend(t, db, o)
			life{t, db, q, `"` + schema + `".jobs`, schema}.lead()
			woken := listenAs(t, q, "w", []string{"default"})
			if _, err := q.Sleep(t.Context(), "w", []string{"default"}); err != nil {
				t.Fatal(err)
			}
			enqueue(t, q, jobs(1)...)
			await(t, woken)
		})
	}
}

// TestEmptySearchPath: no statement needs a search_path. So it can be set to schemas that nobody
// else can write to, and functions and operators that others have put into public are not called.
func TestEmptySearchPath(t *testing.T) {
	t.Parallel()
	db := postgrestest.Open(t)
	for _, trap := range []string{
		`FUNCTION public.width_bucket(bigint, bigint[]) RETURNS int LANGUAGE sql AS 'SELECT 1 / 0'`,
		`FUNCTION public.unnest(text[]) RETURNS SETOF text LANGUAGE sql AS 'SELECT (1 / 0)::text'`,
		`FUNCTION public.jsonb_path_exists(jsonb, text) RETURNS boolean LANGUAGE sql AS 'SELECT 1 / 0 = 1'`,
		`FUNCTION public.trap(bigint, interval) RETURNS interval LANGUAGE sql AS 'SELECT interval ''1 s'' / 0'`,
		`OPERATOR public.* (LEFTARG = bigint, RIGHTARG = interval, FUNCTION = public.trap)`,
	} {
		exec(t, db, `CREATE `+trap)
	}
	q := backend(t, db, postgres.Options{})
	db.SetMaxOpenConns(1)
	if err := q.Enqueue(t.Context(), nil, jobs(1)...); err == nil {
		t.Error("Enqueue with the traps on the search_path: got no error: they are none")
	}
	exec(t, db, `SET search_path = ''`)
	life{t, db, q, "errand.jobs", "x"}.lead()
}

// TestInfiniteTimes: a due time that SQL has set to infinity, or beyond what Go's times can be,
// keeps no job from running. The table refuses such times; here it has no checks.
func TestInfiniteTimes(t *testing.T) {
	t.Parallel()
	for _, w := range theseWays {
		t.Run(w.name, func(t *testing.T) {
			db, _ := w.open(t, postgrestest.DSN(t))
			q := backend(t, db, postgres.Options{})
			dropChecks(t, db)
			for _, due := range []string{"-infinity", "4713-01-01 BC", "infinity", "294276-01-01"} {
				exec(t, db, `INSERT INTO errand.jobs (kind, scheduled_at) VALUES ('test', '`+due+`')`)
			}
			enqueue(t, q, jobs(1)...)
			soon := &queue.Job{Kind: "test", Delay: time.Hour}
			enqueue(t, q, soon)
			if records, _, err := q.Jobs(t.Context(), queue.Filter{}); err != nil || len(records) != 6 {
				t.Errorf("Jobs: got %d, error %v; want 6", len(records), err)
			}
			exec(t, db, `INSERT INTO errand.jobs (queue, scheduled_at) VALUES ('put off', 'infinity')`)
			if next, err := q.Sleep(t.Context(), "w", []string{"put off"}); err != nil || next >= 0 {
				t.Errorf("Sleep beside what is put off for ever: got %v, error %v; want below 0", next, err)
			}
			if next, err := q.Sleep(t.Context(), "w", []string{"default"}); err != nil || next <= 0 || next > time.Hour {
				t.Errorf("Sleep: got %v, error %v; want at most an hour", next, err)
			}
			if held := claim(t, q, 10); len(held) != 3 {
				t.Errorf("claimed %d jobs, want 3", len(held))
			}
			exec(t, db, `UPDATE errand.jobs SET locked_at = locked_at - interval '1 hour', locked_until = locked_until - interval '30 minutes'`)
			if back, err := q.Reclaim(t.Context(), 10); err != nil || len(back) != 3 {
				t.Errorf("Reclaim: got %d, error %v; want 3", len(back), err)
			}
			tx, err := db.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer tx.Rollback()
			if job, err := q.ClaimTx(t.Context(), tx, request(1)); err != nil || job == nil {
				t.Errorf("ClaimTx: got %v, error %v; want a job", job, err)
			}
		})
	}
}
