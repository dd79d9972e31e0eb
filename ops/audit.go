package ops

import (
	"context"
	"fmt"
	"time"

	"github.com/errandhq/errand/queue"
)

// audited returns the last such action on that job of the audit log, as a sentence. ok is false if
// there is none. Actions on many jobs do not name them. The actions have the names that cmd/errand
// and package web give them.
func (f *facts) audited(ctx context.Context, id int64, action string) (text string, ok bool, err error) {
	auditor, isAuditor := queue.As[queue.Auditor](f.queue)
	if !isAuditor {
		return "", false, nil
	}
	page, _, err := auditor.AuditLog(ctx, queue.AuditFilter{JobID: id, Action: action})
	if ok, err := f.tryOrNote(ctx, "who has changed the job", err); !ok {
		return "", false, err
	}
	for _, e := range page {
		if e.Count > 0 {
			text = fmt.Sprintf("%s: %s, at %s", e.Action, e.Actor, e.At.Format(time.RFC3339))
			if e.Reason != "" {
				text += ", because: " + e.Reason
			}
			return text, true, nil
		}
	}
	return "", false, nil
}
