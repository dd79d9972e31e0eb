package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/errandhq/errand/backend/dburl"
	"github.com/errandhq/errand/queue"
)

// maxCounted bounds how many rows of a table are counted.
const maxCounted = 10_000

// keptTables are the tables whose rows a person may miss, and which of their rows those are; ""
// means all.
var keptTables = []struct{ name, where string }{
	{name: "jobs"}, {name: "jobs_archive"}, {name: "results"},
	{name: "dedup", where: "WHERE until > clock_timestamp()"},
	{name: "rules"}, {name: "paused_kinds"}, {name: "schedules"}, {name: "audit"}, {name: "stats"},
}

// rowCount is how many rows a table has. IsMore is true if there are more than Rows.
type rowCount struct {
	Table  string `json:"table"`
	Rows   int    `json:"rows"`
	IsMore bool   `json:"is_more,omitempty"`
}

func checkLoss(counts []rowCount, mayLose bool) error {
	if len(counts) > 0 && !mayLose {
		return refusedf("%s would be lost: --lose-data %s loses them", countsText(counts), schemaName)
	}
	return nil
}

// countRows counts the rows of errand's tables that would be lost, by table. It leaves out empty
// tables.
func countRows(ctx context.Context, db queue.DB, d *dburl.Database) ([]rowCount, error) {
	list := []rowCount{}
	present, err := presentTables(ctx, db, d.Scheme)
	if err != nil {
		return nil, err
	}
	for _, kept := range keptTables {
		if !slices.Contains(present, kept.name) {
			continue
		}
		c := rowCount{Table: kept.name}
		text := fmt.Sprintf(`SELECT count(*) FROM (SELECT 1 FROM %s %s LIMIT %d) t`, prefixOf(d.Scheme)+kept.name, kept.where, maxCounted+1)
		if err := readOne(ctx, db, &c.Rows, text); err != nil {
			return nil, err
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
