package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/errandhq/errand/backend/dburl"
	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/sqlite"
	"github.com/errandhq/errand/internal/plain"
	"github.com/errandhq/errand/queue"
)

// schemaName is what --lose-data has to name: the schema, or on SQLite what the names of the tables
// begin with.
const schemaName = "errand"

func (a *app) migrateDownCommand() *cobra.Command {
	loseData := ""
	cmd := &cobra.Command{
		Use:   "down",
		Short: "Remove all tables of errand",
		Long: `migrate down removes what migrate up has made: tables, types, functions, and the
schema if nothing else is in it. What others have made there stays. It does
nothing, and exits with 4, while a worker is alive, if rows would be lost, or if
other objects depend on errand's tables, such as views and foreign keys, and on
SQLite triggers. With --lose-data errand the rows are lost, for good; on a
terminal it asks for the name of the database before.

Stop your programs first: a worker reports itself a second after it has started,
and is not seen before.`,
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
	if err := needTables(d); err != nil {
		return err
	}
	isThere := false
	var counts []rowCount
	err := a.step(ctx, d, func(ctx context.Context) (err error) {
		isThere, counts, err = lookBeforeDrop(ctx, d)
		return err
	})
	if err == nil && isThere {
		err = a.confirmLoss(ctx, d, counts, mayLose)
	}
	if err == nil && isThere {
		err = a.step(ctx, d, func(ctx context.Context) (err error) {
			isThere, counts, err = a.drop(ctx, d, mayLose)
			return err
		})
	}
	switch {
	case err != nil:
		return err
	case !isThere:
		a.notef("nothing to do")
		return nil
	}
	text := "all tables are removed"
	if len(counts) > 0 {
		text += ", with " + countsText(counts)
	}
	return a.writeOne(struct {
		Lost []rowCount `json:"lost"`
	}{counts}, text)
}

// lookBeforeDrop reports whether there are tables of errand, and returns how many rows are lost
// with them. A different migrate down may remove the tables meanwhile: then there are none.
func lookBeforeDrop(ctx context.Context, d *dburl.Database) (isThere bool, counts []rowCount, err error) {
	if isThere, err = canDrop(ctx, d.DB, d); err == nil && isThere {
		counts, err = checkDrop(ctx, d.DB, d)
	}
	if err != nil {
		if isStillThere, again := canDrop(ctx, d.DB, d); again == nil && !isStillThere {
			return false, nil, nil
		}
	}
	return isThere, counts, err
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
	fmt.Fprintf(a.err, "%s of %s are lost. Type the name of the database, %s, to go on: ", countsText(counts), plain.Line(d.Description), plain.Line(name))
	switch line, err := a.readLine(ctx); {
	case err != nil:
		return err
	case line != name:
		return refusedf("not confirmed, nothing was changed")
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

// drop removes the tables, in one transaction that keeps jobs from being enqueued and migrations
// from being run meanwhile. It returns how many rows are lost, or false if the tables are gone
// since canDrop.
func (a *app) drop(ctx context.Context, d *dburl.Database, mayLose bool) (isThere bool, counts []rowCount, err error) {
	text, err := dropSQL(d.Scheme)
	if err != nil {
		return false, nil, err
	}
	tx, end, err := a.begin(ctx, d)
	if err != nil {
		return false, nil, err
	}
	defer end()
	if isThere, err = lockTables(ctx, tx, d, text); err != nil || !isThere {
		return isThere, nil, err
	}
	if counts, err = checkDrop(ctx, tx, d); err != nil {
		return true, nil, err
	}
	if err := checkLoss(counts, mayLose); err != nil {
		return true, nil, err
	}
	if _, err := tx.ExecContext(ctx, text); err != nil {
		if sqlState(err) == dependentObjects {
			return true, nil, refusedf("nothing was changed: %w", err)
		}
		return true, nil, err
	}
	return true, counts, tx.Commit()
}

// lockTables locks the tables that text, of dropSQL, is to remove, and reports whether they are
// still there. On SQLite the transaction has the only lock already.
func lockTables(ctx context.Context, tx *sql.Tx, d *dburl.Database, text string) (isThere bool, err error) {
	if d.Scheme == dburl.SQLite {
		return canDrop(ctx, tx, d)
	}
	lockMigrations, _, _ := strings.Cut(text, ";")
	if _, err := tx.ExecContext(ctx, lockMigrations); err != nil {
		return false, err
	}
	if isThere, err = canDrop(ctx, tx, d); err != nil || !isThere {
		return isThere, err
	}
	_, err = tx.ExecContext(ctx, `LOCK TABLE errand.jobs IN ACCESS EXCLUSIVE MODE`)
	return true, err
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
