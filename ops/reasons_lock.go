package ops

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

// locker is a transaction that has locked something. pid is 0 for a prepared one.
type locker struct {
	pid                      int
	prepared                 string
	application, role, state string
	open                     float64 // for how many seconds
}

func (l *locker) targets() []any {
	return []any{&l.pid, &l.prepared, &l.application, &l.role, &l.state, &l.open}
}

func (l locker) evidence() string {
	if l.pid == 0 {
		return fmt.Sprintf("the prepared transaction %q, for %v", l.prepared, short(seconds(l.open)))
	}
	return fmt.Sprintf("session %d (application %s, role %s, %s), its transaction is open for %v", l.pid, l.application, l.role, l.state, short(seconds(l.open)))
}

func (l locker) remedy() string {
	if l.pid == 0 {
		return "COMMIT PREPARED or ROLLBACK PREPARED " + literal(l.prepared)
	}
	return fmt.Sprintf("end that transaction, or: SELECT pg_terminate_backend(%d)", l.pid)
}

// lockers runs a statement that returns lockers.
func (f *facts) lockers(ctx context.Context, what, name string, args ...any) (list []locker, err error) {
	err = f.server.rows(ctx, name, func(r *sql.Rows) error {
		var l locker
		err := r.Scan(l.targets()...)
		list = append(list, l)
		return err
	}, args...)
	if ok, err := f.tryOrNote(ctx, what, err); !ok {
		return nil, err
	}
	return list, nil
}

// briefly is how long a lock may be held before it is a reason: claims and heartbeats hold theirs
// for milliseconds.
const briefly = time.Second

// tableLocked returns who has locked the whole table, or waits for that: claims wait behind both.
func (f *facts) tableLocked(ctx context.Context) ([]Reason, error) {
	if f.server == nil {
		return nil, nil
	}
	list, err := f.lockers(ctx, "who has locked the table", "table_lock")
	for _, l := range list {
		if seconds(l.open) >= briefly {
			return []Reason{{ID: "table-locked", Level: Fail, Verdict: "A transaction has locked the table of jobs, or waits to lock it, so all claims wait.",
				Evidence: []string{l.evidence()}, Remedy: l.remedy()}}, nil
		}
	}
	return nil, err
}

// rowLocked returns who has locked the job's row: claims pass over it.
func (f *facts) rowLocked(ctx context.Context) ([]Reason, error) {
	if f.server == nil {
		return nil, nil
	}
	list, err := f.lockers(ctx, "who has locked the job", "row_lock", f.job.ID)
	for _, l := range list {
		if seconds(l.open) >= briefly {
			return []Reason{{ID: "row-locked", Level: Warn, Verdict: fmt.Sprintf("An open transaction has locked job %d, so claims pass over it.", f.job.ID),
				Evidence: []string{l.evidence()}, Remedy: l.remedy()}}, nil
		}
	}
	return nil, err
}
