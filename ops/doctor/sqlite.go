package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/errandhq/errand/ops"
	"github.com/errandhq/errand/ops/internal/reader"
	"github.com/errandhq/errand/ops/internal/words"
)

// onSQLite are the checks of SQLite, in the order of docs/doctor.md, without those of everywhere.
// The backend's New has refused settings that are not safe.
var onSQLite = []check{
	{"schema", fileSchema},
	{"integrity", integrity},
	{"wal", walLength},
	{"disk", fileDisk},
	{"write-lock", writeLock},
}

func reachFile(ctx context.Context, d *doctor) (finding, error) {
	var version string
	err := errors.Join(
		d.File.Row(ctx, "SELECT sqlite_version()", &version),
		d.File.Row(ctx, reader.FilePath, &d.File.Path),
	)
	if err != nil {
		return finding{ops.Fail, "the file cannot be read: " + err.Error(), "look whether it is there, and whether this user may read and write it and its folder"}, nil
	}
	d.File.Name = "SQLite " + version
	return finding{value: d.File.Name + ", " + d.File.Path}, nil
}

func fileSchema(ctx context.Context, d *doctor) (finding, error) {
	var found int
	err := d.File.Row(ctx, "SELECT coalesce(max(version), 0) FROM errand_migrations", &found)
	if err != nil && strings.Contains(err.Error(), "no such table") {
		return finding{ops.Fail, fmt.Sprintf("this file has no tables %s…", d.File.Tables.Schema), "run sqlite.Migrate with the same Options"}, nil
	}
	return judgeVersion(found, d.File.Tables.Version, "run sqlite.Migrate with the same Options"), err
}

func integrity(ctx context.Context, d *doctor) (finding, error) {
	var result string
	if err := d.File.Row(ctx, "PRAGMA quick_check(1)", &result); err != nil {
		return finding{}, err
	}
	if result != "ok" {
		return finding{ops.Fail, "the file is damaged: " + result, "stop all processes, copy the file and its -wal away, and restore a backup, or sqlite3 FILE .recover"}, nil
	}
	return finding{value: "quick_check finds nothing"}, nil
}

// The lengths of the write-ahead log from which on reads are slow.
const (
	longWAL    = 64 << 20
	tooLongWAL = 1 << 30
)

func walLength(_ context.Context, d *doctor) (finding, error) {
	info, err := os.Stat(d.File.Path + "-wal")
	if errors.Is(err, fs.ErrNotExist) {
		return finding{value: "no write-ahead log"}, nil
	}
	if err != nil {
		return finding{}, err
	}
	return finding{words.LevelOf(info.Size(), longWAL, tooLongWAL), fmt.Sprintf("the write-ahead log has %d MB", info.Size()>>20),
		"a transaction that reads for long keeps it from being copied back into the file: end that transaction"}, nil
}

func writeLock(ctx context.Context, d *doctor) (finding, error) {
	began := time.Now()
	isFree, err := d.File.TryWriteLock(ctx)
	switch {
	case err != nil:
		return finding{}, err
	case !isFree:
		return finding{ops.Fail, fmt.Sprintf("another transaction has the write lock, for %v at least", reader.LockWait),
			"end the transaction that has written and is still open: all workers wait for it"}, nil
	}
	return finding{value: fmt.Sprintf("free, after %v", words.Short(time.Since(began)))}, nil
}
