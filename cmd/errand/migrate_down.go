package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/errandhq/errand/backend/dburl"
	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/sqlite"
	"github.com/errandhq/errand/queue"
)

// schemaName is what --lose-data has to name: the schema, or on SQLite what the names of the tables
// begin with.
const schemaName = "errand"

// maxCounted bounds how many rows of a table are counted.
const maxCounted = 10_000

// keptTables are the tables whose rows a person may miss.
var keptTables = []string{"jobs", "jobs_archive", "results", "rules", "paused_kinds", "schedules", "audit", "stats"}

// rowCount is how many rows a table has. IsMore is true if there are more than Rows.
type rowCount struct {
	Table  string `json:"table"`
	Rows   int    `json:"rows"`
	IsMore bool   `json:"is_more,omitempty"`
}

func (a *app) migrateDownCommand() *cobra.Command {
	loseData := ""
	cmd := &cobra.Command{
		Use:   "down",
		Short: "Remove all tables of errand",
		Long: `migrate down removes what migrate up has made: tables, types, functions, and the
schema if nothing else is in it. What others have made there stays. It does
nothing, and exits with 4, while a worker is alive, if rows would be lost, or if
other objects depend on errand's tables. With --lose-data errand the rows are
lost, for good; on a terminal it asks for the name of the database before.`,
		Example: `  errand migrate down
  errand migrate down --lose-data errand`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().StringVar(&loseData, "lose-data", "", "lose the rows of this `SCHEMA`, which is "+schemaName)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if loseData != "" && loseData != schemaName {
			return usagef("--lose-data %s: the schema is %s", loseData, schemaName)
		}
		return a.working(func(ctx context.Context, d *dburl.Database, _ []string) error {
			return a.migrateDown(ctx, d, loseData != "")
		})(cmd, args)
	}
	return cmd
}

func (a *app) migrateDown(ctx context.Context, d *dburl.Database, mayLose bool) error {
	isThere := false
	var counts []rowCount
	err := a.step(ctx, d, func(ctx context.Context) (err error) {
		if isThere, err = canDrop(ctx, d); err != nil || !isThere {
			return err
		}
		if err := checkNobodyWorks(ctx, d); err != nil {
			return err
		}
		counts, err = countRows(ctx, d.DB, d)
		return err
	})
	switch {
	case err != nil:
		return err
	case !isThere:
		a.notef("nothing to do")
		return nil
	}
	if err := a.confirmLoss(ctx, d, counts, mayLose); err != nil {
		return err
	}
	err = a.step(ctx, d, func(ctx context.Context) error {
		counts, err = a.drop(ctx, d, mayLose)
		return err
	})
	if err != nil {
		return err
	}
	text := "all tables are removed"
	if len(counts) > 0 {
		text += ", with " + countsText(counts)
	}
	return a.writeOne(struct {
		Lost []rowCount `json:"lost"`
	}{counts}, text)
}

// canDrop reports whether there are tables of errand. It returns an error if a newer program has
// made some of them.
func canDrop(ctx context.Context, d *dburl.Database) (bool, error) {
	list, err := steps(ctx, d)
	if err != nil {
		return false, err
	}
	isThere := false
	for _, s := range list {
		if s.State == "unknown" {
			return true, refusedf("a newer errand has migrated to version %d: remove the tables with that one", s.Version)
		}
		isThere = isThere || s.State == "applied"
	}
	return isThere, nil
}

// confirmLoss returns an error if rows would be lost and the user has not said that they may be.
func (a *app) confirmLoss(ctx context.Context, d *dburl.Database, counts []rowCount, mayLose bool) error {
	if err := checkLoss(counts, mayLose); err != nil || len(counts) == 0 {
		return err
	}
	if _, ok := terminal(a.in); !ok {
		return nil
	}
	name, err := databaseName(ctx, d)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.err, "%s of %s are lost. Type the name of the database, %s, to go on: ", countsText(counts), escape(d.Description), escape(name))
	switch line, err := a.readLine(ctx); {
	case err != nil:
		return err
	case line != name:
		return refusedf("not confirmed, nothing was changed")
	}
	return nil
}

func checkLoss(counts []rowCount, mayLose bool) error {
	if len(counts) > 0 && !mayLose {
		return refusedf("%s would be lost: --lose-data %s loses them", countsText(counts), schemaName)
	}
	return nil
}

// databaseName returns the name of the database, or of the file.
func databaseName(ctx context.Context, d *dburl.Database) (name string, err error) {
	if d.Scheme == dburl.SQLite {
		err = d.DB.QueryRowContext(ctx, `SELECT file FROM pragma_database_list WHERE name = 'main'`).Scan(&name)
		return filepath.Base(name), err
	}
	err = d.DB.QueryRowContext(ctx, `SELECT current_database()`).Scan(&name)
	return name, err
}

// drop removes the tables, in one transaction that keeps jobs from being enqueued meanwhile. It
// returns how many rows are lost.
func (a *app) drop(ctx context.Context, d *dburl.Database, mayLose bool) ([]rowCount, error) {
	text, err := dropSQL(d.Scheme)
	if err != nil {
		return nil, err
	}
	tx, end, err := a.begin(ctx, d)
	if err != nil {
		return nil, err
	}
	defer end()
	if d.Scheme == dburl.Postgres {
		if _, err := tx.ExecContext(ctx, `LOCK TABLE errand.jobs IN ACCESS EXCLUSIVE MODE`); err != nil {
			return nil, err
		}
	}
	if err := checkNobodyWorks(ctx, d); err != nil {
		return nil, err
	}
	counts, err := countRows(ctx, tx, d)
	if err != nil {
		return nil, err
	}
	if err := checkLoss(counts, mayLose); err != nil {
		return nil, err
	}
	if _, err := tx.ExecContext(ctx, text); err != nil {
		if sqlState(err) == dependentObjects {
			return nil, refusedf("nothing was changed: %w", err)
		}
		return nil, err
	}
	return counts, tx.Commit()
}

const dependentObjects = "2BP01"

// dropSQL returns the statements that remove the tables of a scheme.
func dropSQL(scheme string) (string, error) {
	if scheme == dburl.SQLite {
		return sqlite.DropSQL(sqlite.Options{})
	}
	return postgres.DropSQL(postgres.Options{})
}

// checkNobodyWorks returns an error if a worker is alive.
func checkNobodyWorks(ctx context.Context, d *dburl.Database) error {
	fleet, err := need[queue.Fleet](d)
	if err != nil {
		return err
	}
	workers, err := fleet.Workers(ctx)
	var setup *queue.SetupError
	if errors.As(err, &setup) { // an older schema has no table of workers
		return nil
	}
	if err != nil {
		return err
	}
	var names []string
	for _, w := range workers {
		if !w.Vanished {
			names = append(names, fmt.Sprintf("%s (seen %s ago)", w.Name, ageText(w.Silent)))
		}
	}
	if len(names) > 0 {
		return refusedf("workers are alive: %s. Stop them first; one that was killed counts as alive for %v", strings.Join(names, ", "), queue.VanishedAfter)
	}
	return nil
}

// countRows counts the rows that would be lost, by table. It leaves out empty tables.
func countRows(ctx context.Context, db queue.DB, d *dburl.Database) ([]rowCount, error) {
	list := []rowCount{}
	exists, prefix := `SELECT to_regclass($1) IS NOT NULL`, "errand."
	if d.Scheme == dburl.SQLite {
		exists, prefix = `SELECT count(*) > 0 FROM sqlite_schema WHERE name = $1`, "errand_"
	}
	for _, table := range keptTables {
		var isThere bool
		if err := readOne(ctx, db, &isThere, exists, prefix+table); err != nil {
			return nil, err
		}
		c := rowCount{Table: table}
		if isThere {
			text := fmt.Sprintf(`SELECT count(*) FROM (SELECT 1 FROM %s LIMIT %d) t`, prefix+table, maxCounted+1)
			if err := readOne(ctx, db, &c.Rows, text); err != nil {
				return nil, err
			}
		}
		if c.Rows > maxCounted {
			c.Rows, c.IsMore = maxCounted, true
		}
		if c.Rows > 0 {
			list = append(list, c)
		}
	}
	return list, nil
}

// readOne reads the one value of a query.
func readOne(ctx context.Context, db queue.DB, into any, query string, args ...any) error {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	if !rows.Next() {
		return errors.Join(rows.Err(), sql.ErrNoRows)
	}
	return errors.Join(rows.Scan(into), rows.Close())
}

// countsText returns counts as text, such as "12 rows of jobs, 3 rows of audit".
func countsText(counts []rowCount) string {
	var parts []string
	for _, c := range counts {
		n := strconv.Itoa(c.Rows)
		if c.IsMore {
			n = "more than " + n
		}
		parts = append(parts, n+" rows of "+c.Table)
	}
	return strings.Join(parts, ", ")
}
