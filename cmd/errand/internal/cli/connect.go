package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"strings"
	"time"

	"github.com/errandhq/errand/backend/dburl"
	"github.com/errandhq/errand/internal/plain"
	"github.com/errandhq/errand/internal/reach"
	"github.com/errandhq/errand/queue"
)

// applicationName is how pg_stat_activity shows this program.
const applicationName = "errand-cli"

// connections is how many connections a command has: one for a transaction, one for reading beside
// it, and one for findLock.
const connections = 3

// databaseURL returns the URL of the database and where it comes from.
func (a *App) databaseURL() (url, from string) {
	if a.url != "" {
		return a.url, "--url"
	}
	for _, name := range []string{"ERRAND_DATABASE_URL", "DATABASE_URL"} {
		if url := a.Getenv(name); url != "" {
			return url, name
		}
	}
	return "", ""
}

// namedSchema returns the schema that the command line or the environment names, and where it comes
// from.
func (a *App) namedSchema() (schema, from string) {
	if a.schema != "" {
		return a.schema, "--schema"
	}
	return a.Getenv("ERRAND_SCHEMA"), "ERRAND_SCHEMA"
}

// Schema returns the schema of the tables of a PostgreSQL database, for a command that needs no
// database. A URL that is there counts as it does for commands that open it.
func (a *App) Schema() (string, error) {
	schema, _ := a.namedSchema()
	url, _ := a.databaseURL()
	if !isPostgres(url) {
		url = "postgres://localhost/"
	}
	d, err := dburl.Open(url, dburl.Options{Schema: schema})
	if err != nil {
		return "", a.usage(err)
	}
	defer d.Close()
	return d.Schema, nil
}

// RefuseSchema returns an error if a schema is named, for a command about a scheme that has none.
func (a *App) RefuseSchema(scheme string) error {
	if schema, from := a.namedSchema(); schema != "" {
		return Usagef("%s %s: %s has no schemas", from, schema, scheme)
	}
	return nil
}

// usage makes a usage error of an error of the URL or the schema.
func (a *App) usage(err error) error {
	bad, ok := errors.AsType[*queue.InvalidError](err)
	if !ok {
		return err
	}
	_, from := a.databaseURL()
	schema, named := a.namedSchema()
	switch {
	case bad.Field == "Schema" && schema != "":
		return Usagef("%s %s: %s", named, schema, bad.Problem)
	case bad.Field == "Schema":
		return Usagef("the URL of %s: %s, or by --schema or ERRAND_SCHEMA", from, bad.Problem)
	}
	return Usagef("the URL of %s: %s", from, bad.Problem)
}

// open opens the database and connects to it.
func (a *App) open(ctx context.Context, o dburl.Options) (*dburl.Database, error) {
	url, from := a.databaseURL()
	if url == "" {
		return nil, Usagef("no database: give --url, or set ERRAND_DATABASE_URL or DATABASE_URL")
	}
	o.Application, o.CancelWait, o.ConnectTimeout = cmp.Or(o.Application, applicationName), cancelWait, a.Timeout
	o.Schema, _ = a.namedSchema()
	d, err := dial(ctx, url, o, a.Timeout)
	if err != nil && strings.Contains(err.Error(), "unsupported startup parameter") {
		a.Notef("the pooler before the server takes no settings: it does not keep this command from writing, nor ends its slow statements")
		o.ReadOnly, o.StatementTimeout = false, 0
		d, err = dial(ctx, url, o, a.Timeout)
	}
	if errors.Is(err, fs.ErrNotExist) {
		what := "file"
		if isRedis(url) {
			what = "namespace"
		}
		return nil, fmt.Errorf("%w: the %s of %s does not exist (%s makes one)", err, what, from, a.Command("migrate", "up", "--create"))
	}
	if err != nil && strings.Contains(err.Error(), "readonly database") {
		return nil, fmt.Errorf("%w: this user may not write the file or its folder, where SQLite keeps the write-ahead log, also for reading. Run this as their owner, or look at a copy", err)
	}
	return d, a.usage(err)
}

// OpenSecond opens a database beside d, that of the command, to write to it. If d is in a schema of
// its own, the URL has to say which schema that is there.
func (a *App) OpenSecond(ctx context.Context, d *dburl.Database, url string) (*dburl.Database, error) {
	if isPostgres(url) && d.Schema != "" && d.Schema != DefaultSchema && !namesSchema(url) {
		return nil, Usagef("it does not say in which schema: schema=%s or, for the default, schema=%s", d.Schema, DefaultSchema)
	}
	o := dburl.Options{MustExist: true, Application: applicationName, CancelWait: cancelWait, ConnectTimeout: a.Timeout}
	return dial(ctx, url, o, a.Timeout)
}

// dial opens the database that url names, and waits for its first answer.
func dial(ctx context.Context, url string, o dburl.Options, timeout time.Duration) (*dburl.Database, error) {
	d, err := dburl.Open(url, o)
	switch {
	case err != nil && isRedis(url) && reach.Check(err) != nil:
		return nil, fmt.Errorf("no connection to Redis: %s", connectProblem(err))
	case err != nil:
		return nil, err
	case d.Scheme == dburl.Memory:
		return nil, Usagef("memory: is a queue inside one process: no other program can open it")
	case d.DB == nil: // Open has asked the server
		return d, nil
	}
	d.DB.SetMaxOpenConns(connections)
	inner, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := d.DB.PingContext(inner); err != nil {
		d.Close()
		if inner.Err() != nil {
			return nil, fmt.Errorf("no connection to the %s: no answer within %v", d.Description, timeout)
		}
		return nil, fmt.Errorf("no connection to the %s: %s", d.Description, connectProblem(err))
	}
	return d, nil
}

// DefaultSchema is the schema of the tables unless another is named.
const DefaultSchema = "errand"

// isPostgres reports whether a URL names a PostgreSQL database.
func isPostgres(url string) bool {
	scheme, _, _ := strings.Cut(strings.ToLower(url), ":")
	return scheme == "postgres" || scheme == "postgresql"
}

// namesSchema reports whether the URL of a PostgreSQL database has the parameter schema.
func namesSchema(text string) bool {
	_, query, _ := strings.Cut(text, "?")
	params, _ := url.ParseQuery(query)
	return params.Has("schema")
}

// isRedis reports whether a URL names a Redis.
func isRedis(url string) bool {
	scheme, _, _ := strings.Cut(strings.ToLower(url), ":")
	return strings.HasPrefix(scheme, "redis")
}

// connectProblem returns in a few words why there is no connection, and what to do about it.
func connectProblem(err error) string {
	reason := reach.Check(err)
	if reason == nil {
		if server, ok := errors.AsType[serverError](err); ok {
			return server.Error()
		}
		text := strings.Join(strings.Fields(err.Error()), " ")
		if i := strings.LastIndex(text, "`: "); i >= 0 { // after what pgx was given
			text = text[i+len("`: "):]
		}
		return text
	}
	text := reason.Problem
	if server, ok := errors.AsType[serverError](err); ok {
		text += " (" + server.Error() + ")"
	}
	return text + "; " + reason.Advice
}

// Command returns a command line of this program for the same database, for a POSIX shell.
func (a *App) Command(args ...string) string {
	line := a.Program()
	for _, arg := range args {
		line += " " + plain.ShellQuote(arg)
	}
	return line
}

// Program returns how a command line for the same database begins. What came from the
// environment is there for the next command, too. A password is left out: a terminal's log, or that
// of a CI, is no place for it.
func (a *App) Program() string {
	line := "errand"
	if a.url != "" {
		line += " --url " + plain.ShellQuote(withoutPassword(a.url))
	}
	if a.schema != "" {
		line += " --schema " + plain.ShellQuote(a.schema)
	}
	return line
}

// NotePassword says how a command line of program finds the password that it leaves out, if text,
// which was printed, has such a command line.
func (a *App) NotePassword(text string) {
	if a.url != "" && withoutPassword(a.url) != a.url && strings.Contains(text, a.Program()) {
		variable := "PGPASSWORD"
		if isRedis(a.url) {
			variable = "REDISCLI_AUTH"
		}
		a.Notef("the commands above leave out the password of --url: set %s, or ERRAND_DATABASE_URL instead of --url", variable)
	}
}

// withoutPassword returns a URL of a database without its password.
func withoutPassword(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "URL" // dburl does not open it either
	}
	query := u.Query()
	_, isSet := u.User.Password()
	if !isSet && !query.Has("password") && !query.Has("sslpassword") && !query.Has("sentinel-password") {
		return text
	}
	if isSet {
		u.User = url.User(u.User.Username())
	}
	query.Del("password")
	query.Del("sslpassword")
	query.Del("sentinel-password")
	u.RawQuery = query.Encode()
	return u.String()
}
