package migrate

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/errandhq/errand/backend/dburl"
	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/sqlite"
	"github.com/errandhq/errand/cmd/errand/internal/cli"
)

func (a app) migrateDownCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "down postgres|sqlite",
		Short: "Print the SQL that removes all tables of errand",
		Long: `migrate down prints the SQL that removes the tables, types and functions that
migrate up has made, with all jobs, and the schema if it is empty then. The
command needs no database and changes nothing: read the SQL, and run it as a
whole, in one transaction.

First stop your programs. errand workers shows that no worker is left, and errand
stats that no job is. On PostgreSQL the SQL fails and changes nothing while other
objects depend on the tables, such as views and foreign keys. SQLite does not
look: it removes your triggers on the tables, and keeps your views.`,
		Example: `  errand migrate down postgres | PGOPTIONS='-c lock_timeout=5s' psql -1 -v ON_ERROR_STOP=1 "$DATABASE_URL"
  errand migrate down postgres --schema orders | less
  errand migrate down sqlite | sqlite3 -bail shop.db`,
		Args:      cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		ValidArgs: []string{dburl.Postgres, dburl.SQLite},
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("output") {
				return cli.Usagef("--output %s: migrate down prints SQL", a.Format)
			}
			if err := a.Accept(); err != nil {
				return err
			}
			schema, err := a.schemaFor(args[0])
			if err != nil {
				return err
			}
			text, err := dropSQL(args[0], schema)
			if err == nil {
				_, err = fmt.Fprint(a.Out, removes(schema), text)
			}
			return err
		},
	}
}

// removes is the comment above the SQL.
func removes(schema string) string {
	place := ""
	if schema != "" {
		place = ` in the schema "` + schema + `"`
	}
	return "-- Removes all tables of errand" + place + ", with all jobs. Run it in one transaction, when no worker is alive.\n"
}

// schemaFor returns the schema of the tables of a scheme, "" where there are none.
func (a app) schemaFor(scheme string) (string, error) {
	if scheme == dburl.Postgres {
		return a.Schema()
	}
	return "", a.RefuseSchema(scheme)
}

// dropSQL returns the statements that remove the tables of a scheme.
func dropSQL(scheme, schema string) (string, error) {
	if scheme == dburl.SQLite {
		return sqlite.DropSQL(sqlite.Options{})
	}
	return postgres.DropSQL(postgres.Options{Schema: schema})
}
