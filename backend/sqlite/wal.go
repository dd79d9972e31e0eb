package sqlite

import (
	"context"
	"os"
	"time"

	"github.com/errandhq/errand/backend/sqlite/internal/writelock"
)

const (
	// longestWAL is how long the file of the write-ahead log may become until upkeep empties it: twice what SQLite lets it become by
	// default where readers leave it alone now and then.
	longestWAL = 8 << 20
	// walPatience is how long emptying it waits for readers, and keeps writers waiting.
	walPatience = 200 * time.Millisecond
)

// emptyWAL writes the write-ahead log to the database and empties it, where it has become long. SQLite itself begins it anew only in a
// moment in which nobody reads from it, so under constant reading it grows without end. A reader that outlasts walPatience
// prevents it, and the next upkeep tries again. That it fails is no error of the caller's: the log is valid however long it is.
func (b *Backend) emptyWAL(ctx context.Context) {
	info, err := os.Stat(b.id.path + "-wal")
	if err != nil || info.Size() <= longestWAL {
		return
	}
	t, err := b.takeTurn(ctx, writelock.Ordinary, b.db)
	if err != nil {
		return
	}
	_ = t.Try(ctx, func() error {
		_, err := t.conn.ExecContext(ctx, setBusyTimeout(int(walPatience.Milliseconds())))
		if err == nil {
			_, _ = t.conn.ExecContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)") // once: the next upkeep tries again
		}
		return err
	})
	t.end(ctx)
}
