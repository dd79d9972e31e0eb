// Package dburl opens a queue by a URL, for programs that let their operator choose the database:
//
//	d, err := dburl.Open(os.Getenv("DATABASE_URL"), dburl.Options{})
//	defer d.Close()
//	err = d.Migrate(ctx)
//	err = engine.Worker{Backend: d.Queue, Handler: mux}.Run(ctx)
//
// It is the one package that imports drivers: github.com/jackc/pgx/v5, modernc.org/sqlite and
// github.com/redis/rueidis. A program that has a *sql.DB or a client, or wants another driver,
// calls New of the backend instead. It is then smaller by the drivers that it does not use.
//
// # URLs
//
//   - postgres://user:password@host:port/database?parameters, or postgresql:, as pgx and libpq read
//     it: parts that are left out come from the PG* variables, and special characters are
//     percent-encoded. The parameter schema names the schema of errand's tables, "errand" unless
//     given; other programs do not know it. search_path is for tables of your own: with it the
//     schema has to be given, by schema or [Options].
//   - sqlite:path is a file. The path begins after "sqlite:", or after "sqlite://": sqlite:a.db and
//     sqlite://a.db are a.db in the working directory, sqlite:/var/a.db and sqlite:///var/a.db are
//     /var/a.db. The path is percent-decoded: %25 is a percent sign, %3F a question mark, %23 a
//     number sign. There are no parameters.
//   - redis://user:password@host:port?parameters, and rediss: for TLS. Some of a cluster's nodes
//     are host:port,host:port. The port may be left out: 6379. What stands alone before the @ is a
//     user; a password alone begins with a colon. A URL without a password takes that of the
//     variable REDISCLI_AUTH. Special characters are percent-encoded. The parameters are namespace,
//     "errand" unless given; partitions, spread and durable, as in [redis.Options]; and, for TLS,
//     cacert, cert and key, the files of the authority, and of this program's own certificate. A
//     namespace that exists has the partitions and spread that are stored there, unless they are
//     given. There is no database number but 0: namespaces take its place.
//   - redis+sentinel://user:password@host:port,host:port/name?parameters, and rediss+sentinel: for
//     TLS, are the master of that name, for which the Sentinels at the hosts are asked. Their port
//     may be left out: 26379. User and password are those of Redis; the parameters sentinel-user
//     and sentinel-password are those of the Sentinels. All else is as above.
//   - memory: is a queue in this process alone, which ends with it. There is no database to write
//     to in the same transaction.
//
// An empty URL is an error: a worker whose DATABASE_URL is missing must not run on a database of
// its own as if all were well.
//
// Schemes may be in upper case. A program cannot add schemes.
package dburl

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/errandhq/errand/backend/memory"
	"github.com/errandhq/errand/queue"
)

// The schemes, as [Database] has them.
const (
	Postgres = "postgres"
	SQLite   = "sqlite"
	Redis    = "redis"
	Memory   = "memory"
)

// Database is a queue and the database that it is in.
type Database struct {
	// Scheme is [Postgres], [SQLite], [Redis] or [Memory].
	Scheme string
	// Description names the database in a few words, such as "SQLite file /var/a.db". It contains
	// no password.
	Description string
	// Queue is the backend: a [*postgres.Backend], [*sqlite.Backend], [*redis.Backend] or
	// [*memory.Queue]. [driver.As] finds its further capabilities.
	Queue queue.Queue
	// Schema is the schema of the tables in PostgreSQL; "" for other schemes.
	Schema string
	// DB is the handle that Queue uses, for transactions that enqueue or settle; nil in Redis and in
	// memory. It keeps up to 20 connections; its SetMaxOpenConns and SetMaxIdleConns change that.
	DB *sql.DB

	migrate func(context.Context) error
	close   func() error // nil if there is nothing but DB to close
}

// Options are those that all backends have, and those of a tool's handle. Retention is the same for
// every process that uses a queue.
type Options struct {
	// Schema is the schema of the tables in PostgreSQL, as in [postgres.Options]. "" means what the
	// URL's parameter schema says, or errand. A Schema that differs from the URL's is a
	// [*queue.InvalidError], as is one with a URL that is not of PostgreSQL.
	Schema string
	// Retention says how long ended jobs are kept.
	Retention queue.Retention
	// ReadOnly makes every statement fail that would write, for tools that only look. In memory it
	// has no effect.
	ReadOnly bool
	// MustExist makes Open return an error that wraps [fs.ErrNotExist] if a SQLite file does not
	// exist, or if nothing has used the namespace in Redis yet. False means that Open creates it,
	// in Redis unless ReadOnly is set.
	MustExist bool
	// Application is the application_name on PostgreSQL, whatever the URL says. "" means the URL's.
	Application string
	// StatementTimeout is how long a statement may run on PostgreSQL before the server ends it, in
	// whole milliseconds. 0 means what the URL or the server says. A PgBouncer refuses connections
	// that set it, or ReadOnly, unless its ignore_startup_parameters names the settings.
	StatementTimeout time.Duration
	// CancelWait is for programs that may end while a statement runs. On PostgreSQL a call whose
	// context ends then has the server cancel its statement, and waits up to so long for that. 0
	// means that the call returns at once; the server is asked in the background, and never hears of
	// it if the process ends first.
	CancelWait time.Duration
	// ConnectTimeout is how long Open may take to connect to Redis, and to look whether it can keep
	// jobs. 0 means 10 seconds.
	ConnectTimeout time.Duration
}

// connections is how many a handle may have. Each of a worker's handlers, 10 by default, may have a
// transaction, and the worker itself needs some.
const connections = 20

// Open opens the database that url names. This process or another must have called
// [Database.Migrate] before the queue is used. Open does not connect to a PostgreSQL server. It
// does connect to Redis, and returns the error if it cannot. It looks at a SQLite file, which it
// creates if there is none and [Options].MustExist is false, and waits for up to 30 s while another
// process has the file locked.
//
// A URL that cannot be used is a [*queue.InvalidError]. No error contains the URL or a password.
func Open(url string, o Options) (*Database, error) {
	if strings.ContainsFunc(url, unicode.IsControl) {
		return nil, invalid("a control character, such as the end of a line")
	}
	if url == "" {
		return nil, invalid("empty: set it, as the environment variable DATABASE_URL if it comes from there; %s", forms)
	}
	scheme, rest, found := strings.Cut(url, ":")
	if !found {
		return nil, invalid("no scheme: %s", forms)
	}
	scheme = strings.ToLower(scheme)
	if err := o.checkSchema(scheme); err != nil {
		return nil, err
	}
	if s, ok := redisSchemes[scheme]; ok {
		return openRedis(rest, s, o)
	}
	switch scheme {
	case "postgres", "postgresql":
		return openPostgres(rest, o)
	case "sqlite":
		return openSQLite(rest, o)
	case "memory":
		return openMemory(rest, o)
	}
	return nil, invalid("the scheme %q is not known: %s", scheme, forms)
}

const forms = "it is postgres://user:password@host:port/database, sqlite:path, redis://user:password@host:port, or memory:"

// Migrate brings the tables of the queue up to date, as the backend's Migrate does. In Redis, where
// Open has done so, it checks the servers again. In memory it does nothing.
func (d *Database) Migrate(ctx context.Context) error { return d.migrate(ctx) }

// Close closes DB, or the connections to Redis; call it after any worker's Run has returned.
func (d *Database) Close() error {
	switch {
	case d.close != nil:
		return d.close()
	case d.DB == nil:
		return nil
	}
	return d.DB.Close()
}

func openMemory(rest string, o Options) (*Database, error) {
	if strings.Trim(rest, "/") != "" {
		return nil, invalid("memory: has nothing after it")
	}
	return &Database{
		Scheme:      Memory,
		Description: "memory of this process",
		Queue:       memory.New(memory.Options{Retention: o.Retention}),
		migrate:     func(context.Context) error { return nil },
	}, nil
}

// checkSchema returns an error if a database of this scheme has no schemas, and o names one.
func (o Options) checkSchema(scheme string) error {
	_, isRedis := redisSchemes[scheme]
	switch {
	case o.Schema == "":
		return nil
	case isRedis:
		return invalidSchema("Redis has no schemas: the parameter namespace in the URL keeps services apart")
	case scheme == SQLite:
		return invalidSchema("SQLite has no schemas: a file for each service keeps them apart")
	case scheme == Memory:
		return invalidSchema("memory: has no schemas")
	}
	return nil
}

func invalidSchema(format string, args ...any) error {
	return &queue.InvalidError{Field: "Schema", Problem: fmt.Sprintf(format, args...)}
}

func invalid(format string, args ...any) error {
	return &queue.InvalidError{Field: "URL", Problem: fmt.Sprintf(format, args...)}
}
