package data

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/lab/chaos/internal/child"
	"github.com/errandhq/errand/lab/chaos/internal/harness"
	"github.com/errandhq/errand/lab/chaos/internal/locks"
	"github.com/errandhq/errand/lab/chaos/internal/scenario"
)

var migrations = scenario.Scenario{
	Number: 19,
	Name:   "migrations",
	What:   "16 processes migrate at once: an empty database, each older version, and under load, again and again",
	Run:    migrate,
}

const (
	// migrators is how many processes migrate at once.
	migrators       = 16
	leaseOfMigrated = 3 * time.Second
)

func migrate(ctx context.Context, h *harness.Harness) error {
	steps, err := postgres.Migrations(postgres.Options{})
	if err != nil {
		return err
	}
	want, err := catalogue(ctx, h.DSN()) // the schema that a single migrator made
	if err != nil {
		return err
	}
	var different []string
	// A database for each older version, 0 for none. The last one is that of the load.
	for version := range steps {
		if err := migrateFrom(ctx, h, steps, version, want, &different); err != nil {
			return err
		}
	}
	if err := installVersion(ctx, h.DSN(), steps[:len(steps)-1]); err != nil {
		return err
	}
	enqueuer, err := h.Enqueuer("enqueuer", child.Enqueue{Batch: 20, Rate: 200})
	if err != nil {
		return err
	}
	if err := h.Sleep(ctx, harness.Size(h, 5*time.Second, time.Second)); err != nil {
		return err
	}
	watch, err := locks.Start(ctx, h.DSN("application_name", "locks"))
	if err != nil {
		return err
	}
	rounds := harness.Size(h, 20, 3)
	crew, err := migrateUnderLoad(ctx, h, rounds, want, &different)
	if err != nil {
		return err
	}
	waits, looks, gap, err := watch.Stop()
	if err != nil {
		return err
	}
	f, _, err := scenario.Finish(ctx, h, crew, enqueuer)
	if err != nil {
		return err
	}
	h.CheckDuplicates(f)
	h.Row.Check(len(different) == 0, "schemas that differ from that of one migrator: 0", "%s of %d", harness.FirstFew(different), rounds+len(steps))
	checkWaits(h, waits, looks, gap)
	h.Row.Note("from version 0 to %d in databases of their own, from version %d while jobs are enqueued, and %d times under load where nothing is left to do; leases of %v. "+
		"There is no earlier release yet whose workers could run beside", len(steps)-1, len(steps)-1, rounds-1, leaseOfMigrated)
	return nil
}

// migrateUnderLoad lets the migrators migrate the database of the load, again and again, and starts
// the workers after the first time: they need the current schema. There is no older release whose
// workers could run before.
func migrateUnderLoad(ctx context.Context, h *harness.Harness, rounds int, want string, different *[]string) (crew *harness.Crew, err error) {
	for round := range rounds {
		if err := migrateTogether(ctx, h, fmt.Sprint("load", round), harness.Database); err != nil {
			return nil, err
		}
		if round == 0 {
			if crew, err = scenario.Workers(h, leaseOfMigrated); err != nil {
				return nil, err
			}
		}
		if err := compare(ctx, h.DSN(), want, fmt.Sprint("under load, round ", round+1), different); err != nil {
			return nil, err
		}
		if err := h.Sleep(ctx, time.Duration(h.Source(fmt.Sprint("pause", round)).Int64N(int64(time.Second)))); err != nil {
			return nil, err
		}
	}
	return crew, nil
}

// migrateFrom lets the migrators migrate a database of an older version.
func migrateFrom(ctx context.Context, h *harness.Harness, steps []postgres.Migration, version int, want string, different *[]string) error {
	name := fmt.Sprint("from", version)
	if err := h.Server.Create(ctx, name); err != nil {
		return err
	}
	dsn := h.Server.URL(name)
	if version > 0 {
		if err := installVersion(ctx, dsn, steps[:version]); err != nil {
			return err
		}
	}
	if err := migrateTogether(ctx, h, name, name); err != nil {
		return err
	}
	return compare(ctx, dsn, want, fmt.Sprint("from version ", version), different)
}

// installVersion makes the schema of an older release.
func installVersion(ctx context.Context, dsn string, steps []postgres.Migration) error {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	statements := []string{`DROP SCHEMA IF EXISTS errand CASCADE`}
	for _, s := range steps {
		statements = append(statements, s.SQL)
	}
	for _, s := range statements {
		if _, err := conn.Exec(ctx, s, pgx.QueryExecModeSimpleProtocol); err != nil {
			return fmt.Errorf("%.60s: %w", s, err)
		}
	}
	return nil
}

// migrateTogether lets all migrators migrate at once. All must succeed.
func migrateTogether(ctx context.Context, h *harness.Harness, name, database string) error {
	var all []*child.Process
	for i := range migrators {
		name := fmt.Sprintf("%s.%d", name, i+1)
		p, err := h.Start(child.Spec{Part: "migrate", Name: name, DSN: h.Server.URL(database, "application_name", name)})
		if err != nil {
			return err
		}
		all = append(all, p)
	}
	return runTogether(ctx, h, all)
}

// compare adds to different if a schema is not the wanted one.
func compare(ctx context.Context, dsn, want, what string, different *[]string) error {
	got, err := catalogue(ctx, dsn)
	if err == nil && got != want {
		*different = append(*different, what)
	}
	return err
}

// checkWaits demands that no process of the load has waited long for a lock.
func checkWaits(h *harness.Harness, waits []locks.Wait, looks int, gap time.Duration) {
	var longest, migrator locks.Wait
	for _, w := range waits {
		if strings.HasPrefix(w.Session, "w") || w.Session == "enqueuer" {
			if w.Took > longest.Took {
				longest = w
			}
		} else if w.Took > migrator.Took {
			migrator = w
		}
	}
	h.Row.CheckTime(longest.Took <= time.Second, "lock waits of workers and enqueuers ≤ 1 s", "%v at most; %s", longest.Took.Round(time.Millisecond), longest)
	h.Row.CheckTime(gap <= time.Second && looks > 0, "looks at the locks, each second at least", "%d, at most %v between them", looks, gap.Round(time.Millisecond))
	h.Row.Note("migrators waited for each other, %v at most", migrator.Took.Round(time.Millisecond))
}
