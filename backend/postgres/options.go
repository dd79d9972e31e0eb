package postgres

import (
	"context"
	"database/sql"
	"log/slog"

	"github.com/errandhq/errand/backend/internal/sqlkit"
	"github.com/errandhq/errand/queue"
)

// Options are the same for every process that uses a queue. The zero value is the schema errand,
// polling, and the default limits.
type Options struct {
	// Schema holds the tables; "" means errand. It is 1 to 48 letters, digits and underscores, not
	// beginning with a digit; upper and lower case differ.
	Schema string
	// Listen wakes sleeping workers by LISTEN and NOTIFY: pgxlisten.Listen or pqlisten.New. nil
	// means that this process's workers poll.
	Listen Listen
	// Silent keeps Enqueue and Settle from notifying, for transactions that will be prepared:
	// PostgreSQL does not prepare one that has notified. Workers find the jobs by polling, so set
	// their Poll. false means that they notify.
	Silent bool
	// MaxPayload is the longest payload in bytes; 0 means [queue.DefaultMaxPayload]. From 10 MB on
	// the table may refuse a payload, because it takes at most 64 MiB of jsonb, which has up to six
	// times the bytes of its text. The error is also a [*queue.InvalidError], but it ends the
	// caller's transaction.
	MaxPayload int
	// Retention says how long ended jobs are kept. The archive is the table jobs_archive.
	Retention queue.Retention
	// Logger gets a record, once a minute, of each job that the database refuses to change, because
	// a trigger raises for it or its row is damaged. nil means [slog.Default].
	Logger *slog.Logger
}

// Listen listens on a channel of db's database. It calls ready once when it has begun to listen,
// and notify with the payload of each notification. It blocks until ctx ends or the connection
// breaks, which is an error. An error that is [errors.ErrUnsupported] means that Listen cannot work
// and need not be called again. Neither function that it calls blocks.
type Listen func(ctx context.Context, db *sql.DB, channel string, ready func(), notify func(payload string)) error

const (
	defaultSchema = "errand"
)

func (o Options) withDefaults() (Options, error) {
	if o.Schema == "" {
		o.Schema = defaultSchema
	}
	if err := sqlkit.CheckName("Schema", o.Schema); err != nil {
		return o, err
	}
	if o.MaxPayload < 0 {
		return o, sqlkit.Invalid("MaxPayload", "%d: at least 0", o.MaxPayload)
	}
	if o.MaxPayload == 0 {
		o.MaxPayload = queue.DefaultMaxPayload
	}
	o.Retention = o.Retention.WithDefaults()
	return o, nil
}
