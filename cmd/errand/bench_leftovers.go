package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"github.com/errandhq/errand/backend/dburl"
	"github.com/errandhq/errand/internal/shell"
)

// What the names of rooms begin with.
const (
	benchSchema = "errand_bench_"
	benchFolder = ".errand-bench-"
)

// tellLeftovers names the rooms of other benches, and how to remove them. Nobody else does so: a
// bench that was killed could not.
func (a *app) tellLeftovers(ctx context.Context, d *dburl.Database) error {
	find := schemaLeftovers
	if d.Scheme == dburl.SQLite {
		find = folderLeftovers
	}
	list, err := find(ctx, d)
	for _, l := range list {
		a.notef("there is %s of a bench that runs now, or was killed. If none runs, remove it: %s", l.name, l.remedy)
	}
	return err
}

// leftover is the room of another bench, and the command that removes it.
type leftover struct{ name, remedy string }

func schemaLeftovers(ctx context.Context, d *dburl.Database) (list []leftover, err error) {
	rows, err := d.DB.QueryContext(ctx, `SELECT nspname FROM pg_namespace WHERE nspname ~ $1 ORDER BY nspname`, "^"+benchSchema+"[a-z0-9]+$")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		list = append(list, leftover{"the schema " + name, "DROP SCHEMA " + name + " CASCADE"})
	}
	return list, rows.Err()
}

func folderLeftovers(ctx context.Context, d *dburl.Database) (list []leftover, err error) {
	parent, err := parentFolder(ctx, d)
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(parent)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), benchFolder) && e.IsDir() {
			folder := filepath.Join(parent, e.Name())
			list = append(list, leftover{"the folder " + folder, "rm -r " + shell.Quote(folder)})
		}
	}
	return list, err
}

// parentFolder returns the folder of a SQLite file.
func parentFolder(ctx context.Context, d *dburl.Database) (string, error) {
	var file string
	err := d.DB.QueryRowContext(ctx, `SELECT file FROM pragma_database_list WHERE name = 'main'`).Scan(&file)
	return filepath.Dir(file), err
}
