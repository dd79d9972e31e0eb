package sqlite

import (
	"strings"
	"time"

	"github.com/errandhq/errand/backend/internal/sqlkit"
	"github.com/errandhq/errand/queue"
)

// Options are the same for every process that uses a queue. The zero value is
// tables that begin with errand_, and the default limits.
type Options struct {
	// Prefix begins the names of tables and indexes; "" means errand_. It is 1 to 48
	// letters, digits and underscores, not beginning with a digit nor with
	// sqlite_; upper and lower case are the same.
	Prefix string
	// MaxPayload is the longest payload in bytes; 0 means [queue.DefaultMaxPayload].
	MaxPayload int
	// Retention says how long ended jobs are kept. The archive is the table errand_jobs_archive.
	Retention queue.Retention
	// LockTimeout is how long a call that writes waits for the file's write lock, and for a
	// connection; 0 means 30 s. After it the call fails: a transaction has been open for that long,
	// or no connection has been free.
	LockTimeout time.Duration
	// Relaxed accepts connections whose synchronous is NORMAL. After a power cut, though
	// not after the death of a process, what was committed last may then be missing.
	Relaxed bool
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
	o.Prefix = strings.ToLower(o.Prefix) // SQLite's names of tables are the same in either case, but texts with them are not
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
