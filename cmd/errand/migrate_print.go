package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/errandhq/errand/backend/dburl"
)

func (a *app) migratePrintCommand() *cobra.Command {
	p := printing{}
	cmd := &cobra.Command{
		Use:   "print postgres|sqlite",
		Short: "Print the SQL of the migrations, for a migration tool",
		Long: `migrate print prints the SQL of each migration, in order. Each is to be run in
one transaction. It needs no database.

With --dir it writes a file for each migration instead, and prints the files'
names. Their names begin with the next free numbers of the folder:
00012_errand_0001_jobs.sql after 00011_users.sql. It leaves out the migrations
that have a file there, so run it again after an upgrade. With --format goose
the files are in the format of goose; their Down fails, because there are no
steps back.`,
		Example: `  errand migrate print postgres | less
  errand migrate print postgres --dir migrations --format goose`,
		Args:      cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		ValidArgs: []string{dburl.Postgres, dburl.SQLite},
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("output") {
				return usagef("--output %s: migrate print prints SQL", a.format)
			}
			if err := p.check(cmd); err != nil {
				return err
			}
			if err := a.accept(); err != nil {
				return err
			}
			return p.run(a.out, args[0])
		},
	}
	cmd.Flags().IntVar(&p.after, "after", 0, "leave out the migrations up to this `version`")
	cmd.Flags().StringVar(&p.dir, "dir", "", "write files into this `folder`, which has to exist")
	cmd.Flags().StringVar(&p.format, "format", plainFormat, "the `format` of the files: plain or goose")
	cmd.Flags().BoolVar(&p.isDown, "down", false, "print the SQL of migrate down, which checks nothing")
	cmd.MarkFlagsMutuallyExclusive("after", "down")
	cmd.MarkFlagsMutuallyExclusive("dir", "down")
	_ = cmd.MarkFlagDirname("dir")
	_ = cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions([]string{plainFormat, gooseFormat}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// printing holds the flags of migrate print.
type printing struct {
	after       int
	isDown      bool
	dir, format string
}

const plainFormat, gooseFormat = "plain", "goose"

func (p printing) check(cmd *cobra.Command) error {
	switch {
	case p.after < 0:
		return usagef("--after %d: at least 0", p.after)
	case p.format != plainFormat && p.format != gooseFormat:
		return usagef("--format %s: plain or goose", p.format)
	case p.dir == "" && cmd.Flags().Changed("format"):
		return usagef("--format without --dir: it is the format of files")
	}
	return nil
}

func (p printing) run(out io.Writer, scheme string) error {
	if p.isDown {
		text, err := dropSQL(scheme)
		if err != nil {
			return err
		}
		_, err = io.WriteString(out, text)
		return err
	}
	list, err := known(scheme)
	if err != nil {
		return err
	}
	for _, s := range list {
		switch {
		case s.Version <= p.after:
			continue
		case p.dir != "":
			err = p.writeFile(out, scheme, s)
		default:
			_, err = fmt.Fprintf(out, "-- %04d_%s\n%s\n", s.Version, s.Name, s.sql)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// writeFile writes the file of a migration, unless the folder has it, and prints its name.
func (p printing) writeFile(out io.Writer, scheme string, s step) error {
	entries, err := os.ReadDir(p.dir)
	if err != nil {
		return err
	}
	name, next := fmt.Sprintf("errand_%04d_%s.sql", s.Version, s.Name), int64(1)
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
	text := s.sql
	if p.format == gooseFormat {
		text = fmt.Sprintf(gooseFile, s.sql, noStepsBack[scheme])
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
