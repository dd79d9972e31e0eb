package dburl

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgres/pgxlisten"
)

func openPostgres(rest string, o Options) (*Database, error) {
	config, err := parsePostgres(rest)
	if err != nil {
		return nil, err
	}
	schema, err := o.takeSchema(config.RuntimeParams)
	if err != nil {
		return nil, err
	}
	o.setParams(config.RuntimeParams)
	if o.ReadOnly {
		config.ValidateConnect = asRole(config.ValidateConnect)
	}
	if o.CancelWait > 0 {
		config.BuildContextWatcherHandler = func(conn *pgconn.PgConn) ctxwatch.Handler {
			return &canceller{conn: conn, wait: o.CancelWait}
		}
	}
	options := postgres.Options{
		Schema:    schema,
		Listen:    pgxlisten.Listen,
		Retention: o.Retention,
	}
	db := stdlib.OpenDB(*config)
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	q, err := postgres.New(db, options)
	if err != nil {
		db.Close()
		return nil, fmt.Errorf("dburl: %w", err)
	}
	_, address := pgconn.NetworkAddress(config.Host, config.Port)
	place := fmt.Sprintf("PostgreSQL database %s at %s", cmp.Or(config.Database, config.User), address)
	if schema != defaultSchema {
		place += ", schema " + schema
	}
	return &Database{
		Scheme:      Postgres,
		Description: place,
		Queue:       q,
		Schema:      schema,
		DB:          db,
		migrate:     func(ctx context.Context) error { return postgres.Migrate(ctx, db, options) },
	}, nil
}

const defaultSchema = "errand" // as postgres.Options has it

// takeSchema returns the schema of the tables, and removes it from params, which pgx sends to the
// server. A search_path does not count, because errand's statements name their schema. It may come
// from a program that means it to, so the schema has to be named besides.
func (o Options) takeSchema(params map[string]string) (string, error) {
	named, isNamed := params["schema"]
	delete(params, "schema")
	switch {
	case isNamed && named == "":
		return "", invalidSchema("the parameter schema has no value")
	case isNamed && o.Schema != "" && o.Schema != named:
		return "", invalidSchema("the parameter schema of the URL is %q", named)
	}
	schema := cmp.Or(o.Schema, named)
	if schema == "" && setsSearchPath(params) {
		return "", invalidSchema("search_path is set, by the URL, PGOPTIONS or a service file, and does not say where errand's tables are: " +
			"name their schema, in the URL as schema=errand")
	}
	return cmp.Or(schema, defaultSchema), nil
}

// setsSearchPath reports whether the server is told a search_path when a connection begins. It
// takes names of settings in any case, and in options also with hyphens, and \ before any letter.
func setsSearchPath(params map[string]string) bool {
	for name, value := range params {
		switch strings.ToLower(name) {
		case "search_path":
			return true
		case "options":
			plain := strings.NewReplacer(`\`, "", "-", "_").Replace(strings.ToLower(value))
			if strings.Contains(plain, "search_path") {
				return true
			}
		}
	}
	return false
}

// canceller has the server end the statement of a connection when the statement's context ends. In
// contrast to pgx's own, it waits until the request is answered also where the statement has ended
// by then: PgBouncer 1.18, which Debian 12 has, ends itself where a client leaves earlier.
type canceller struct {
	conn *pgconn.PgConn
	wait time.Duration
	done chan struct{}
}

// HandleCancel implements [ctxwatch.Handler].
func (c *canceller) HandleCancel(context.Context) {
	deadline := time.Now().Add(c.wait)
	_ = c.conn.Conn().SetDeadline(deadline)
	c.done = make(chan struct{})
	go func() {
		defer close(c.done)
		ctx, cancel := context.WithDeadline(context.Background(), deadline)
		defer cancel()
		_ = c.conn.CancelRequest(ctx)
		// The server may end a statement a moment after it has answered: it must not be the next one.
		time.Sleep(100 * time.Millisecond)
	}()
}

// HandleUnwatchAfterCancel implements [ctxwatch.Handler].
func (c *canceller) HandleUnwatchAfterCancel() {
	<-c.done
	_ = c.conn.Conn().SetDeadline(time.Time{})
}

// setParams sets what the server is told at the start of each connection.
func (o Options) setParams(params map[string]string) {
	if o.ReadOnly {
		params["default_transaction_read_only"] = "on"
	}
	if o.Application != "" {
		params["application_name"] = o.Application
	}
	if o.StatementTimeout > 0 {
		params["statement_timeout"] = strconv.FormatInt(max(o.StatementTimeout.Milliseconds(), 1), 10)
	}
}

// asRole returns what asks for a server of the same role, where v asks whether it can be written
// to: pgx takes the answer from the session, which is read-only because this package makes it so.
func asRole(v pgconn.ValidateConnectFunc) pgconn.ValidateConnectFunc {
	is := func(other pgconn.ValidateConnectFunc) bool {
		return v != nil && reflect.ValueOf(v).Pointer() == reflect.ValueOf(other).Pointer()
	}
	switch {
	case is(pgconn.ValidateConnectTargetSessionAttrsReadWrite):
		return pgconn.ValidateConnectTargetSessionAttrsPrimary
	case is(pgconn.ValidateConnectTargetSessionAttrsReadOnly):
		return pgconn.ValidateConnectTargetSessionAttrsStandby
	}
	return v
}

// parsePostgres reads what follows "postgres:". No error or description may contain the password,
// whatever is wrong with the URL. A / or an @ in a password would end it there, and its rest would
// count as a part of the host or the database: parsePostgres refuses such a URL.
func parsePostgres(rest string) (*pgx.ConnConfig, error) {
	if !strings.HasPrefix(rest, "//") {
		return nil, invalid("// must follow the scheme: it is postgres://user:password@host:port/database")
	}
	if at := strings.LastIndex(rest, "@"); at > 0 && strings.ContainsAny(rest[2:at], "@/") {
		return nil, invalid("there is one @, before the host: elsewhere it is written %%40, and a / in a user or password %%2F")
	}
	_, query, _ := strings.Cut(rest, "?")
	if params, err := url.ParseQuery(query); err == nil && len(params["schema"]) > 1 {
		return nil, invalidSchema("the parameter schema is in the URL more than once")
	}
	config, err := pgx.ParseConfig("postgres:" + rest)
	if err != nil {
		return nil, invalid("pgx cannot read it: %s", reason(err))
	}
	delete(config.RuntimeParams, "binary_parameters") // lib/pq's own, in a URL that both drivers get
	return config, nil
}

// reason returns what pgx says, without the URL. Where pgx could not parse the URL, it may quote
// any part of it.
func reason(err error) string {
	const before = "`: " // which stands between the URL and what is wrong with it
	text := err.Error()
	if strings.Contains(text, before+"failed to parse as URL") {
		return "special characters are percent-encoded, and each parameter is name=value"
	}
	if i := strings.LastIndex(text, before); i >= 0 {
		return text[i+len(before):]
	}
	return "it is not as postgres://user:password@host:port/database"
}
