package redis

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"

	"github.com/redis/rueidis"

	"github.com/errandhq/errand/backend/internal/badrows"
)

// Bad jobs.
//
// Problem: the hash of a job that is lost, has another type, or holds a state that errand has not
// written makes each function fail that meets it, and with it all of its partition.
// Rule: claims, reclaims and prunes take such a job out of all sets, and note it in the sorted set
// "bad"; all other functions pass over it. Its key stays. Reclaim reports what is in "bad", once a
// minute for all processes. A job without its payload alone is claimed as unreadable.
// Bounds: a state is checked as often as it is read, for its fields and their types. The counts may
// keep a job that had ended, or that was the first of its line.
// Shown by: TestBadJob, TestBadJobKey, TestBadPart.

// errNoPayload is why a job is unreadable whose hash has no payload.
var errNoPayload = errors.New("errand: the job's payload is missing")

// logBad logs the jobs of an answer of lua/index.lua's reportBad.
func (b *Backend) logBad(p int, m *rueidis.RedisMessage) error {
	log := cmp.Or(b.opts.Logger, slog.Default())
	return readEach(m, func(in *reader) {
		seq, isThere := in.int(), in.int() == 1
		if in.err != nil {
			return
		}
		id, key := b.idOf(p, seq), fmt.Sprint(b.tags[p], "j:", seq)
		if isThere {
			log.Error("errand: a job cannot be read and does not run, until its key is deleted this is logged again",
				"job", id, "key", key, "again_in", badrows.PassOver)
		} else {
			log.Error("errand: the data of a job is lost, it does not run", "job", id, "key", key)
		}
	})
}
