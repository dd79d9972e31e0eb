package main

import (
	"context"
	"database/sql"
	"regexp"
	"slices"
	"strings"

	"github.com/errandhq/errand/backend/dburl"
	"github.com/errandhq/errand/queue"
)

// prefixOf returns what the names of errand's tables begin with in SQL.
func prefixOf(scheme string) string {
	if scheme == dburl.SQLite {
		return "errand_"
	}
	return "errand."
}

var createTable = regexp.MustCompile(`(?m)^CREATE (?:UNLOGGED )?TABLE (?:"errand"\.|errand_)(\w+)`)

// knownTables returns the tables that the migrations of a scheme make, such as "jobs".
func knownTables(scheme string) (names []string, err error) {
	list, err := known(scheme)
	for _, s := range list {
		for _, match := range createTable.FindAllStringSubmatch(s.sql, -1) {
			names = append(names, match[1])
		}
	}
	return names, err
}

// presentTables returns those of the known tables that are in the database.
func presentTables(ctx context.Context, db queue.DB, scheme string) ([]string, error) {
	list := `SELECT tablename FROM pg_tables WHERE schemaname = 'errand'`
	if scheme == dburl.SQLite {
		list = `SELECT substr(lower(name), 8) FROM sqlite_schema WHERE type = 'table' AND lower(name) GLOB 'errand_*'`
	}
	isThere := make(map[string]bool)
	err := readRows(ctx, db, list, func(rows *sql.Rows) error {
		var name string
		err := rows.Scan(&name)
		isThere[name] = true
		return err
	})
	if err != nil {
		return nil, err
	}
	all, err := knownTables(scheme)
	return slices.DeleteFunc(all, func(name string) bool { return !isThere[name] }), err
}

// canDrop reports whether there are tables of errand. It returns an error if it is not sure that
// they are all errand's: a newer program has made some of them, or the record of the migrations or
// the table of jobs is missing.
func canDrop(ctx context.Context, db queue.DB, d *dburl.Database) (isThere bool, err error) {
	list, err := steps(ctx, db, d.Scheme)
	if err != nil {
		return false, err
	}
	present, err := presentTables(ctx, db, d.Scheme)
	if err != nil {
		return false, err
	}
	for _, s := range list {
		if s.State == "unknown" {
			return true, refusedf("a newer errand has migrated to version %d: remove the tables with that one", s.Version)
		}
		isThere = isThere || s.State == "applied"
	}
	hasJobs := slices.Contains(present, "jobs")
	switch others := slices.DeleteFunc(present, func(name string) bool { return name == "migrations" }); {
	case isThere && !hasJobs:
		return true, refusedf("the table %sjobs is missing, and the migrations that make it are recorded: nothing was changed. %s",
			prefixOf(d.Scheme), howToRemove(d.Scheme))
	case !isThere && hasJobs:
		return true, checkSetup(ctx, d)
	case !isThere && len(others) > 0:
		return true, refusedf("there are tables of errand's names (%s) and no record of its migrations: nothing was changed. %s",
			strings.Join(others, ", "), howToRemove(d.Scheme))
	}
	return isThere, nil
}

// checkSetup returns the error with which migrate up answers.
func checkSetup(ctx context.Context, d *dburl.Database) error {
	checker, err := need[queue.Checker](d)
	if err != nil {
		return err
	}
	return checker.Check(ctx)
}

func howToRemove(scheme string) string {
	return "To remove what is left, run the SQL of: errand migrate print " + scheme + " --down"
}

// checkDrop returns how many rows are lost with errand's tables. It returns an error if a worker is
// alive, or other objects depend on the tables; PostgreSQL says the latter itself.
func checkDrop(ctx context.Context, db queue.DB, d *dburl.Database) ([]rowCount, error) {
	if err := checkNobodyWorks(ctx, d); err != nil {
		return nil, err
	}
	if d.Scheme == dburl.SQLite {
		if err := checkDependents(ctx, db); err != nil {
			return nil, err
		}
	}
	return countRows(ctx, db, d)
}
