package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/errandhq/errand/internal/reach"
	"github.com/errandhq/errand/ops"
	"github.com/errandhq/errand/ops/internal/reader"
)

// failed returns the finding of a check that has returned an error.
func (d *doctor) failed(ctx context.Context, err error) finding {
	switch code := reader.SQLState(err); {
	case errors.Is(err, reader.ErrNotTold):
		return finding{level: ops.Skipped, value: err.Error()}
	case d.hasLocks && (code == reader.LockNotAvailable || code == reader.QueryCanceled || ctx.Err() != nil):
		return finding{ops.Skipped, "a table that the check reads is locked", seeWaits}
	case code == reader.InsufficientPrivilege:
		return finding{ops.Skipped, "a right is missing: " + err.Error(), "run docs/roles.sql, or ask as a role that has this right"}
	case errors.Is(err, fs.ErrPermission):
		return finding{ops.Skipped, "a right is missing: " + err.Error(), "ask as a user that has this right"}
	case code == reader.NotSupported && d.Server != nil && d.Server.Identity.IsStandby:
		return finding{level: ops.Skipped, value: "a standby does not have what the check reads"}
	case code == reader.UndefinedTable, code == reader.UndefinedColumn, code == reader.UndefinedFunction, code == reader.InvalidSchema:
		return finding{ops.Skipped, "something in the schema is missing: " + err.Error(), "see the check schema"}
	case code == reader.LockNotAvailable:
		return finding{ops.Warn, "a transaction has locked a table that the check reads", seeWaits}
	case code == reader.QueryCanceled, errors.Is(err, context.DeadlineExceeded), ctx.Err() != nil:
		return finding{ops.Skipped, fmt.Sprintf("no answer within %v", reader.CheckTimeout),
			"the server is busy, or this program's pool has no free connection: run it again" + d.orByHand()}
	}
	switch u := reach.Check(err); {
	case u != nil && u.Answers:
		return finding{ops.Warn, u.Error(), u.Advice}
	case u != nil:
		return finding{ops.Fail, u.Error(), u.Advice}
	}
	return finding{ops.Warn, "the check has failed: " + err.Error(), "mend what the error names" + d.orByHand()}
}

// orByHand returns what else to do about a check that has failed, if it has SQL.
func (d *doctor) orByHand() string {
	if d.Server == nil && d.File == nil {
		return ""
	}
	return ", or run the SQL of the check by hand"
}

const seeWaits = "see the check waits, which names the session that has locked the table"

// needsStats returns the finding of a check that has found nothing, but may not see the sessions of
// other roles.
func needsStats(s *reader.Server, what string) finding {
	return finding{ops.Skipped, what + ", but this role does not see what sessions of other roles do", "GRANT pg_read_all_stats TO " + s.Role}
}
