package sqlite

import (
	"log/slog"
	"strings"
	"time"

	"github.com/errandhq/errand/backend/internal/sqlkit"
	"github.com/errandhq/errand/queue"
)

// Options configure [New], [Migrate] and [Check]. All processes that use a queue must set the same.
// The zero value means tables whose names begin with errand_, and the default limits.
type Options struct {
	// Prefix begins the names of tables and indexes; "" means errand_. It has 1 to 48 letters,
	// digits and underscores, and does not begin with a digit or with sqlite_. Upper and lower case
	// are the same.
	Prefix string
	// MaxPayload is the longest payload in bytes; 0 means [queue.DefaultMaxPayload].
	MaxPayload int
	// Retention says how long ended jobs are kept. The archive is the table errand_jobs_archive.
	Retention queue.Retention
	// LockTimeout is how long a call that writes waits for the file's write lock, and for a
	// connection; 0 means 30 s. After that the call fails: a transaction has been open for so long,
	// or no connection has been free.
	LockTimeout time.Duration
	// Relaxed accepts connections whose synchronous is NORMAL. A power cut may then undo the last
	// commits. The death of a process does not.
	Relaxed bool
	// Logger gets a record, once a minute, of each job that the database refuses to change, because
	// a trigger raises for it. nil means [slog.Default].
	Logger *slog.Logger
}

const (
	defaultPrefix      = "errand_"
	defaultLockTimeout = 30 * time.Second
)

func (o Options) withDefaults() (Options, error) {
	if o.Prefix == "" {
		o.Prefix = defaultPrefix
	}
	if err := checkPrefix(o.Prefix); err != nil {
		return o, err
	}
	// SQLite compares the names of tables without regard to case, but not texts that hold them.
	o.Prefix = strings.ToLower(o.Prefix)
	if o.MaxPayload < 0 {
		return o, sqlkit.Invalid("MaxPayload", "%d: at least 0", o.MaxPayload)
	}
	if o.LockTimeout < 0 {
		return o, sqlkit.Invalid("LockTimeout", "%v: at least 0", o.LockTimeout)
	}
	if o.MaxPayload == 0 {
		o.MaxPayload = queue.DefaultMaxPayload
	}
	if o.LockTimeout == 0 {
		o.LockTimeout = defaultLockTimeout
	}
	o.Retention = o.Retention.WithDefaults()
	return o, nil
}

func checkPrefix(s string) error {
	if err := sqlkit.CheckName("Prefix", s); err != nil {
		return err
	}
	if strings.HasPrefix(strings.ToLower(s), "sqlite_") {
		return sqlkit.Invalid("Prefix", "%q: SQLite keeps names that begin with sqlite_ to itself", s)
	}
	return nil
}
