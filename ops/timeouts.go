package ops

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"
)

// timeout is a setting that ends what a session does. role is whose, "" for that of this role and
// the database.
type timeout struct {
	role, name string
	after      time.Duration
}

func (t timeout) String() string {
	if t.role == "" {
		return fmt.Sprintf("%s is %v", t.name, t.after)
	}
	return fmt.Sprintf("%s is %v for the role %s", t.name, t.after, t.role)
}

// timeoutsBelow returns the timeouts that are shorter than bound: those of names as a session of
// this role begins, and statement_timeout and transaction_timeout of the other roles of workers. A
// role that owns the tables may set a lock_timeout for its migrations.
func (s *server) timeoutsBelow(ctx context.Context, bound time.Duration, names ...string) (low []timeout, err error) {
	values, err := s.settings(ctx)
	if err != nil {
		return nil, err
	}
	note := func(role, name, value string) {
		if t := durationOf(value); t > 0 && t < bound {
			low = append(low, timeout{role, name, t})
		}
	}
	for _, name := range names {
		note("", name, values[name])
	}
	err = s.rows(ctx, "role_timeouts", func(r *sql.Rows) error {
		var role, name, value string
		err := r.Scan(&role, &name, &value)
		note(role, name, value)
		return err
	})
	return low, err
}

// durationOf returns the value of a timeout as the server stores it, in milliseconds if it has no
// unit. It is 0 for one in minutes or more, and for none.
func durationOf(value string) time.Duration {
	value = strings.ReplaceAll(value, " ", "")
	if t, err := time.ParseDuration(value + "ms"); err == nil {
		return t
	}
	t, _ := time.ParseDuration(value)
	return t
}

func timeouts(ctx context.Context, d *doctor) (finding, error) {
	const shortest = 5 * time.Second
	low, err := d.Server.timeoutsBelow(ctx, shortest, "statement_timeout", "transaction_timeout", "lock_timeout", "idle_in_transaction_session_timeout")
	if err != nil {
		return finding{}, err
	}
	if len(low) == 0 {
		return finding{value: "none is below " + shortest.String()}, nil
	}
	return finding{Warn, timeoutsText(low), "a busy server may end statements of workers: for the role or the database raise it to at least 5 s" + resets(low)}, nil
}

func timeoutsText(list []timeout) string {
	var texts []string
	for _, t := range list {
		texts = append(texts, t.String())
	}
	return strings.Join(texts, ", ")
}

// resets returns how to undo the timeouts of other roles, "" if there are none.
func resets(list []timeout) string {
	var statements []string
	for _, t := range list {
		if s := fmt.Sprintf("ALTER ROLE %s SET %s = '1min'", identifier(t.role), t.name); t.role != "" && !slices.Contains(statements, s) {
			statements = append(statements, s)
		}
	}
	if len(statements) == 0 {
		return ""
	}
	return ": " + strings.Join(statements, "; ") + ". Then restart the workers: sessions keep the setting with which they began"
}

// tooShort is how long a statement_timeout has to be for Explain to think nothing of it.
const tooShort = time.Second

// whyCutShort returns the reason if a timeout may end the statements of workers, and no worker is
// known whose claims succeed. It does not know which of the roles the workers have, if any.
func whyCutShort(ctx context.Context, q *inquiry) ([]Reason, error) {
	if q.Server == nil || q.job.ScheduledAt.After(q.at) || slices.ContainsFunc(q.workers, claims) {
		return nil, nil
	}
	low, err := q.Server.timeoutsBelow(ctx, tooShort, "statement_timeout", "transaction_timeout")
	if ok, err := q.tryOrNote(ctx, "which timeouts workers have", err); !ok || len(low) == 0 {
		return nil, err
	}
	return []Reason{{ID: "short-timeout", Level: Warn,
		Verdict:  "If a worker runs, the server may end its claims and reports before they are done: " + timeoutsText(low) + ".",
		Evidence: []string{"no worker is known whose claims succeed", "a worker whose statements are ended has lines in its log with \"statement timeout\", or 57014"},
		Remedy:   "raise it for the role or the database to at least 5 s" + resets(low)}}, nil
}
