// Package cli has what all commands of errand share: the program's streams and global flags,
// connecting, output, exit codes, completion, and actions with their entries in the audit log.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/errandhq/errand/backend/dburl"
	"github.com/errandhq/errand/internal/plain"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// App is one run of the program: its streams and its global flags.
type App struct {
	In       io.Reader
	Out, Err io.Writer
	Getenv   func(string) string
	// CompletionTime is how long completion may ask the database.
	CompletionTime time.Duration

	Format  string        // --output: table, wide, json or jsonl
	Timeout time.Duration // --timeout
	Reason  string        // --reason of an action, for the audit log
	url     string
	schema  string
	quiet   bool

	// RepeatAdvice says whether the command may be repeated if it is not known whether it was done.
	RepeatAdvice string

	started bool // the command line was accepted
	acts    int  // how many transactions that change something have begun
	commits int  // how many of them are committed
}

// Run runs the command beneath root that args name, and returns the exit code.
func (a *App) Run(ctx context.Context, root *cobra.Command, args []string) int {
	root.SetArgs(args)
	root.SetIn(a.In)
	root.SetOut(a.Out)
	root.SetErr(a.Err)
	checkTopics(root)
	cmd, err := root.ExecuteContextC(ctx)
	code := exitCode(ctx, err, a.started)
	switch code {
	case ExitDone:
	case ExitInterrupted:
		a.Notef("interrupted%s", unknownText(err))
	case ExitUsage:
		a.Notef("%v", err)
		a.Notef("%s --help tells how it is used", cmd.CommandPath())
	default:
		text := a.advise(err).Error()
		a.Notef("%s", text)
		a.NotePassword(text)
	}
	a.noteRepeat(err)
	return code
}

// advise adds what to do about an error that the library cannot know the remedy of here.
func (a *App) advise(err error) error {
	var setup *queue.SetupError
	if errors.As(err, &setup) && strings.Contains(setup.Problem, ".Migrate") && !errors.Is(err, queue.ErrNewer) {
		return fmt.Errorf("%w (%s does so, if this is the right database)", err, a.Command("migrate", "up"))
	}
	if sqlState(err) == readOnlyTransaction {
		return fmt.Errorf("%w. The server takes no writes from this role: it is a standby, or a setting forbids them (%s tells which)", err, a.Command("doctor"))
	}
	return err
}

// Notef writes a line to standard error. What it quotes from a database is escaped.
func (a *App) Notef(format string, args ...any) {
	fmt.Fprintf(a.Err, "errand: %s\n", plain.Line(fmt.Sprintf(format, args...)))
}

// Root returns the command errand, with the commands beneath it.
func (a *App) Root(commands ...*cobra.Command) *cobra.Command {
	root := &cobra.Command{
		Use:   "errand",
		Short: "Look at a job queue and operate it",
		Long: `errand looks at a job queue and operates it, on PostgreSQL, in a SQLite file or in
Redis.

The URL of the database is --url, or else ERRAND_DATABASE_URL, or else
DATABASE_URL:

  postgres://user:password@host:port/database
  sqlite:path
  redis://user:password@host:port?namespace=name
  redis://host:port,host:port for a cluster
  redis+sentinel://host:port/master-name
  rediss: instead of redis: for TLS

A service whose tables are in a PostgreSQL schema of their own is named by --schema,
or else ERRAND_SCHEMA, or else by schema=name in the URL. No command then sees, or
changes, jobs of another schema.

Exit codes:

  0    done
  1    failed
  2    wrong usage
  3    nothing matched
  4    refused
  5    doctor or explain found a problem
  6    not known whether the command has done its work
  130  interrupted`,
		SilenceErrors:     true,
		SilenceUsage:      true,
		PersistentPreRunE: checkGiven,
	}
	flags := root.PersistentFlags()
	flags.StringVar(&a.url, "url", "", "the database's `URL`")
	flags.StringVar(&a.schema, "schema", "", "the PostgreSQL `schema` of the tables (default errand)")
	flags.StringVarP(&a.Format, "output", "o", "table", "`format`: table, wide, json or jsonl")
	flags.DurationVar(&a.Timeout, "timeout", 5*time.Second, "how long the database may take to answer, or a step of long work")
	flags.BoolVarP(&a.quiet, "quiet", "q", false, "do not name the database on standard error")
	_ = root.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"table", "wide", "json", "jsonl"}, cobra.ShellCompDirectiveNoFileComp))
	return Group(root, commands...)
}

// Group adds commands to parent, which by itself only shows its help.
func Group(parent *cobra.Command, commands ...*cobra.Command) *cobra.Command {
	parent.AddCommand(commands...)
	parent.Args = cobra.ArbitraryArgs
	parent.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		if hint := DidYouMean(args[0], names(cmd)); hint != "" {
			return Usagef("no command %q%s", args[0], hint)
		}
		return Usagef("no command %q: there are %s", args[0], strings.Join(names(cmd), ", "))
	}
	return parent
}

// checkTopics makes help and completion, which cobra adds to root, refuse a name that is no
// command.
func checkTopics(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		switch c.Name() {
		case "completion":
			Group(c)
		case "help":
			c.Args = func(_ *cobra.Command, args []string) error {
				found, rest, err := root.Find(args)
				if err == nil && len(rest) > 0 {
					return Usagef("no command %q%s", rest[0], DidYouMean(rest[0], names(found)))
				}
				return err
			}
		}
	}
}

// DidYouMean returns the rest of an error about a name that is not among names, or "" if none of
// them is spelled like it.
func DidYouMean(name string, names []string) string {
	if near := plain.Nearest(name, names); len(near) > 0 {
		return ": did you mean " + near[0] + "?"
	}
	return ""
}

func names(cmd *cobra.Command) (list []string) {
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			list = append(list, c.Name())
		}
	}
	return list
}

// action is the part of a command that uses the database.
type action func(ctx context.Context, d *dburl.Database, args []string) error

// Reading makes the RunE of a command that only reads: the database refuses its writes. The command
// ends within --timeout.
func (a *App) Reading(f action) func(*cobra.Command, []string) error { return a.Watching(a.Bounded(f)) }

// Watching makes the RunE of a command that only reads, and does so until it is told to end. Each
// of its looks ends within --timeout.
func (a *App) Watching(f action) func(*cobra.Command, []string) error {
	return a.Opening(dburl.Options{ReadOnly: true, MustExist: true}, f)
}

// Writing makes the RunE of a command that changes something, and ends within --timeout.
func (a *App) Writing(f action) func(*cobra.Command, []string) error { return a.Working(a.Bounded(f)) }

// Working makes the RunE of a command that changes something in steps, each of which ends within
// --timeout.
func (a *App) Working(f action) func(*cobra.Command, []string) error {
	return a.Opening(dburl.Options{MustExist: true}, f)
}

// Examining makes the RunE of doctor and of explain. It changes nothing, but its handle can
// write: on PostgreSQL such a setting would be a finding, and on SQLite it tries the write lock. On
// Redis it cannot, so that it can examine a replica.
func (a *App) Examining(f action) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		url, _ := a.databaseURL()
		return a.Opening(dburl.Options{MustExist: true, ReadOnly: isRedis(url)}, f)(cmd, args)
	}
}

// Opening makes the RunE of a command that opens the database with these options.
func (a *App) Opening(o dburl.Options, f action) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if err := a.Accept(); err != nil {
			return err
		}
		if o.ReadOnly {
			o.StatementTimeout = a.Timeout
		}
		d, err := a.open(cmd.Context(), o)
		if err != nil {
			return err
		}
		defer d.Close()
		if !a.quiet {
			a.Notef("%s", d.Description)
		}
		return f(cmd.Context(), d, args)
	}
}

// Accept checks the global flags, and notes that the command line was accepted.
func (a *App) Accept() error {
	switch a.Format {
	case "table", "wide", "json", "jsonl":
	default:
		return Usagef("--output %s: table, wide, json or jsonl", a.Format)
	}
	if a.Timeout < time.Millisecond {
		return Usagef("--timeout %v: at least 1ms", a.Timeout)
	}
	a.started = true
	return nil
}

// Need returns the queue's capability T.
func Need[T any](d *dburl.Database) (T, error) {
	t, ok := driver.As[T](d.Queue)
	if !ok {
		return t, Refusedf("%s cannot do that: it is no %v", d.Description, reflect.TypeFor[T]())
	}
	return t, nil
}

// Terminal returns the file descriptor of a stream that is a terminal.
func Terminal(stream any) (fd int, ok bool) {
	f, ok := stream.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return 0, false
	}
	return int(f.Fd()), true
}
