package migrate

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/errandhq/errand/backend/dburl"
	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/sqlite"
	"github.com/errandhq/errand/cmd/errand/internal/cli"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// step is a migration and whether it has run.
type step struct {
	Version int    `json:"version"`
	Name    string `json:"name"`
	State   string `json:"state"` // applied, missing, or unknown to this program
	sql     string
}

func (a app) migrateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Create the tables, bring them up to date, or print the SQL",
		Long: `migrate up calls postgres.Migrate or sqlite.Migrate. Any number of processes may
migrate at once, beside running workers. There are no steps back: migrate down
prints the SQL that removes all tables.`,
	}
	create := false
	up := &cobra.Command{
		Use:   "up",
		Short: "Run the migrations that are missing",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.Opening(dburl.Options{MustExist: !create}, a.migrateUp)(cmd, args)
		},
	}
	up.Flags().BoolVar(&create, "create", false, "create the SQLite file, or the namespace in Redis, if it does not exist")
	return cli.Group(cmd, up,
		&cobra.Command{
			Use:   "status",
			Short: "List the migrations, and say of each whether it has run",
			Args:  cobra.NoArgs,
			RunE:  a.Reading(a.migrateStatus),
		},
		a.Audited(&cobra.Command{
			Use:   "repair",
			Short: "Mend sequences that are behind",
			Long: `On PostgreSQL migrate repair calls postgres.RepairSequences. A sequence is behind
if it gives IDs that are in use; the repair moves it a million past the highest
ID. Before PostgreSQL 19 logical replication does not copy sequences, and some
restores set sequences back. errand doctor finds sequences that are behind. The
repair may run beside workers, and needs the rights of the schema's owner. The
audit log names the sequences that a repair has moved.`,
			Args: cobra.NoArgs,
			RunE: a.Opening(dburl.Options{MustExist: true}, a.migrateRepair),
		}),
		a.migrateDownCommand(), a.migratePrintCommand())
}

func (a app) migrateUp(ctx context.Context, d *dburl.Database, _ []string) error {
	if d.DB == nil { // opening it has made the namespace
		a.Notef("nothing to do")
		return cli.Write(a.App, []step{}, func() cli.Table { return stepTable(nil) })
	}
	var before []step
	err := a.Step(ctx, d, func(ctx context.Context) (err error) {
		before, err = steps(ctx, d)
		return err
	})
	if err != nil {
		return err
	}
	stop := a.showSteps(ctx, d, len(before))
	err = a.Patiently(ctx, d, d.Migrate)
	stop()
	if err != nil {
		return err
	}
	ran := []step{}
	for _, s := range before {
		if s.State == "missing" {
			s.State = "applied"
			ran = append(ran, s)
		}
	}
	if len(ran) == 0 {
		a.Notef("nothing to do")
	}
	return cli.Write(a.App, ran, func() cli.Table { return stepTable(ran) })
}

func (a app) migrateStatus(ctx context.Context, d *dburl.Database, _ []string) error {
	if err := needTables(d); err != nil {
		return err
	}
	list, err := steps(ctx, d)
	if err != nil {
		return err
	}
	return cli.Write(a.App, list, func() cli.Table { return stepTable(list) })
}

// repaired is a sequence that has been moved.
type repaired struct {
	Name string `json:"name"`
	Last int64  `json:"last"`
	Used int64  `json:"used"`
	Now  int64  `json:"now"`
}

func (a app) migrateRepair(ctx context.Context, d *dburl.Database, _ []string) error {
	if d.Scheme != dburl.Postgres {
		return cli.Refusedf("%s has no sequences that can be behind", d.Description)
	}
	list := []repaired{}
	err := a.Step(ctx, d, func(ctx context.Context) error {
		sequences, err := postgres.RepairSequences(ctx, d.DB, postgres.Options{Schema: d.Schema})
		for _, s := range sequences {
			list = append(list, repaired(s))
		}
		if err != nil || len(list) == 0 {
			return err
		}
		return a.auditRepair(ctx, d, list)
	})
	if err != nil {
		return err
	}
	if len(list) == 0 {
		a.Notef("nothing to do")
	}
	return cli.Write(a.App, list, func() cli.Table {
		t := cli.Table{Columns: cli.Columns("SEQUENCE LAST USED NOW")}
		for _, s := range list {
			t.Add(s.Name, strconv.FormatInt(s.Last, 10), strconv.FormatInt(s.Used, 10), strconv.FormatInt(s.Now, 10))
		}
		return t
	})
}

// auditRepair appends a repair's moves to the audit log. It follows the repair, because the
// sequence of the log itself may have been behind.
func (a app) auditRepair(ctx context.Context, d *dburl.Database, list []repaired) error {
	auditor, ok := driver.As[driver.Auditor](d.Queue)
	if !ok {
		return nil
	}
	var moved []string
	for _, s := range list {
		moved = append(moved, fmt.Sprintf("%s=%d", s.Name, s.Now))
	}
	err := auditor.Audit(ctx, nil, queue.AuditEntry{Actor: cli.Actor(), Action: "migrate.repair", Selection: strings.Join(moved, " "), Count: int64(len(list)), Reason: a.Reason})
	if err != nil {
		return fmt.Errorf("%s moved, but not in the audit log: %w", cli.CountText(len(list), "sequence"), err)
	}
	return nil
}

// needTables returns an error if the queue is not in tables.
func needTables(d *dburl.Database) error {
	if d.DB == nil {
		return cli.Refusedf("%s has no tables", d.Description)
	}
	return nil
}

func stepTable(list []step) cli.Table {
	t := cli.Table{Columns: cli.Columns("VERSION NAME STATE")}
	for _, s := range list {
		t.Add(strconv.Itoa(s.Version), s.Name, s.State)
	}
	return t
}

// known returns the migrations that this program knows for a scheme. The schema is PostgreSQL's.
func known(scheme, schema string) (list []step, err error) {
	if scheme == dburl.Postgres {
		migrations, err := postgres.Migrations(postgres.Options{Schema: schema})
		for _, m := range migrations {
			list = append(list, step{Version: m.Version, Name: m.Name, State: "missing", sql: m.SQL})
		}
		return list, err
	}
	migrations, err := sqlite.Migrations(sqlite.Options{})
	for _, m := range migrations {
		list = append(list, step{Version: m.Version, Name: m.Name, State: "missing", sql: m.SQL})
	}
	return list, err
}

// steps returns the migrations that this program knows, and unknown migrations that have run.
func steps(ctx context.Context, d *dburl.Database) ([]step, error) {
	list, err := known(d.Scheme, d.Schema)
	if err != nil {
		return nil, err
	}
	find := `SELECT FROM pg_tables WHERE schemaname = '` + d.Schema + `' AND tablename = 'migrations'` // a name without quotes
	table := `"` + d.Schema + `".migrations`
	if d.Scheme == dburl.SQLite {
		find, table = `SELECT 1 FROM sqlite_schema WHERE type = 'table' AND lower(name) = 'errand_migrations'`, "errand_migrations"
	}
	isThere := false
	err = readRows(ctx, d.DB, find, func(*sql.Rows) error { isThere = true; return nil })
	if err != nil || !isThere {
		return list, err
	}
	err = readRows(ctx, d.DB, `SELECT version FROM `+table+` ORDER BY version`, func(rows *sql.Rows) error {
		var v int
		switch err := rows.Scan(&v); {
		case err != nil:
			return err
		case 1 <= v && v <= len(list):
			list[v-1].State = "applied"
		default:
			list = append(list, step{Version: v, State: "unknown"})
		}
		return nil
	})
	return list, err
}

// readRows calls scan for each row of a query.
func readRows(ctx context.Context, db queue.DB, query string, scan func(rows *sql.Rows) error) error {
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}
