package sqlite

import (
	"context"
	"os"
	"time"

	"github.com/errandhq/errand/backend/sqlite/internal/writelock"
)

const (
	// longestWAL is the length at which upkeep empties the write-ahead log. It is twice the length
	// at which SQLite begins the log anew, if no reader prevents it.
	longestWAL = 8 << 20
	// walPatience is how long emptying the log waits for readers. Writers wait meanwhile.
	walPatience = 200 * time.Millisecond
)

// emptyWAL writes a long write-ahead log to the database and empties it. SQLite itself begins the
// log anew only in a moment without readers, so under constant reading it grows without end. A
// reader that outlasts walPatience prevents emptyWAL, and the next upkeep tries again. A failure is
// no error for the caller, because the log is valid at any length.
func (b *Backend) emptyWAL(ctx context.Context) {
	info, err := os.Stat(b.id.path + "-wal")
	if err != nil || info.Size() <= longestWAL {
		return
	}
	w, err := b.takeTurn(ctx, writelock.Ordinary, b.db)
	if err != nil {
		return
	}
	defer w.end(ctx)
	_ = w.Try(ctx, func() error {
		_, err := w.conn.ExecContext(ctx, setBusyTimeout(int(walPatience.Milliseconds())))
		if err == nil {
			_, _ = w.conn.ExecContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)") // once: the next upkeep tries again
		}
		return err
	})
}
