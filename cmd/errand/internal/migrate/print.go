package migrate

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/errandhq/errand/backend/dburl"
	"github.com/errandhq/errand/cmd/errand/internal/cli"
	"github.com/errandhq/errand/docs"
)

func (a app) migratePrintCommand() *cobra.Command {
	p := printing{}
	cmd := &cobra.Command{
		Use:   "print postgres|sqlite",
		Short: "Print the SQL of the migrations, for a migration tool",
		Long: `migrate print prints the SQL of each migration, in order. Run each migration in
one transaction. The command needs no database.

With --dir it writes a file for each migration instead, and prints the files'
names. The names begin with the next free numbers of the folder:
00012_errand_0001_jobs.sql after 00011_users.sql. A migration that has a file in
the folder is left out, so run the command again after an upgrade. With --format
goose the files are in the format of goose. The Down of such a file fails,
because there are no steps back.

With --roles the command prints the script of the database roles instead, or
writes its file: 00015_errand_roles_0012.sql, if version 12 is the last version
that needs new rights. After an upgrade run the command with --roles again, too,
behind the migrations.

With --schema orders all is for the schema orders: the files are named
00012_errand_orders_0001_jobs.sql, and the roles orders_worker, orders_enqueuer and
so on, so that no service may touch the jobs of another.`,
		Example: `  errand migrate print postgres | less
  errand migrate print postgres --dir migrations --format goose
  errand migrate print postgres --dir migrations --format goose --roles
  errand migrate print postgres --schema orders --roles | psql -X -1 -v ON_ERROR_STOP=1 "$DATABASE_URL"`,
		Args:      cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		ValidArgs: []string{dburl.Postgres, dburl.SQLite},
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("output") {
				return cli.Usagef("--output %s: migrate print prints SQL", a.Format)
			}
			if err := p.check(cmd); err != nil {
				return err
			}
			if err := a.Accept(); err != nil {
				return err
			}
			schema, err := a.schemaFor(args[0])
			if err != nil {
				return err
			}
			p.schema = schema
			return p.run(a.Out, args[0])
		},
	}
	cmd.Flags().IntVar(&p.after, "after", 0, "leave out the migrations up to this `version`")
	cmd.Flags().StringVar(&p.dir, "dir", "", "write files into this `folder`, which has to exist")
	cmd.Flags().StringVar(&p.format, "format", plainFormat, "the `format` of the files: plain or goose")
	cmd.Flags().BoolVar(&p.isRoles, "roles", false, "the script of the database roles; postgres only")
	cmd.MarkFlagsMutuallyExclusive("after", "roles")
	_ = cmd.MarkFlagDirname("dir")
	_ = cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions([]string{plainFormat, gooseFormat}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// printing holds the flags of migrate print.
type printing struct {
	after       int
	isRoles     bool
	dir, format string
	schema      string // PostgreSQL's
}

const plainFormat, gooseFormat = "plain", "goose"

func (p printing) check(cmd *cobra.Command) error {
	switch {
	case p.after < 0:
		return cli.Usagef("--after %d: at least 0", p.after)
	case p.format != plainFormat && p.format != gooseFormat:
		return cli.Usagef("--format %s: plain or goose", p.format)
	case p.dir == "" && cmd.Flags().Changed("format"):
		return cli.Usagef("--format without --dir: it is the format of files")
	}
	return nil
}

func (p printing) run(out io.Writer, scheme string) error {
	if p.isRoles {
		if scheme != dburl.Postgres {
			return cli.Usagef("--roles: %s has no roles", scheme)
		}
		if p.dir == "" {
			_, err := io.WriteString(out, docs.RolesIn(p.schema))
			return err
		}
		return p.writeFile(out, p.fileName(fmt.Sprintf("roles_%04d", docs.RolesVersion)), docs.RolesIn(p.schema), noStepsBack[scheme])
	}
	list, err := known(scheme, p.schema)
	if err != nil {
		return err
	}
	for _, s := range list {
		if s.Version <= p.after {
			continue
		}
		if p.dir == "" {
			_, err = fmt.Fprintf(out, "-- %04d_%s\n%s\n", s.Version, s.Name, s.sql)
		} else {
			err = p.writeFile(out, p.fileName(fmt.Sprintf("%04d_%s", s.Version, s.Name)), s.sql, noStepsBack[scheme])
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// fileName returns the name of a file, without its number. Files of several schemas may be in one
// folder.
func (p printing) fileName(step string) string {
	if p.schema != "" && p.schema != cli.DefaultSchema {
		step = p.schema + "_" + step
	}
	return "errand_" + step + ".sql"
}

// writeFile writes a file under the next free number, unless the folder has name under any, and
// prints its path.
func (p printing) writeFile(out io.Writer, name, text, down string) error {
	entries, err := os.ReadDir(p.dir)
	if err != nil {
		return err
	}
	next := int64(1)
	for _, entry := range entries {
		number, rest, _ := strings.Cut(entry.Name(), "_")
		n, err := strconv.ParseInt(number, 10, 64)
		switch {
		case err != nil: // not a migration
		case rest == name:
			return nil
		default:
			next = max(next, n+1)
		}
	}
	if p.format == gooseFormat {
		text = fmt.Sprintf(gooseFile, text, down)
	}
	path := filepath.Join(p.dir, fmt.Sprintf("%05d_%s", next, name))
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, path)
	return err
}

// gooseFile is a migration in goose's format. The comments of StatementBegin and StatementEnd make
// goose send it as a whole. Down fails: an empty one would only make goose forget the migration.
const gooseFile = `-- +goose Up
-- +goose StatementBegin
%s-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
%s
-- +goose StatementEnd
`

// noStepsBack are statements that fail with an error that says so.
var noStepsBack = map[string]string{
	dburl.Postgres: `DO $$ BEGIN RAISE EXCEPTION 'errand offers no steps back'; END $$;`,
	dburl.SQLite:   `SELECT errand_offers_no_steps_back();`,
}
