package ops

import (
	"context"
	"fmt"
	"slices"
)

// whyCommitsWait returns the reason if commits wait for a synchronous standby that does not answer:
// it is not connected, or hangs. The jobs that such sessions have written stay locked. A role that
// sees only its own sessions does not learn that others' wait.
func whyCommitsWait(ctx context.Context, q *inquiry) ([]Reason, error) {
	if q.Server == nil {
		return nil, nil
	}
	settings, err := q.Server.settings(ctx)
	if err != nil || settings["synchronous_standby_names"] == "" {
		return nil, err
	}
	list, err := q.Server.waitingCommits(ctx)
	if ok, err := q.tryOrNote(ctx, "whether commits wait for a synchronous standby", err); !ok {
		return nil, err
	}
	if len(list) == 0 {
		if !q.Server.seesAll {
			q.unknown = append(q.unknown, "whether commits of other roles wait for a synchronous standby: to know it, ask as a role that has pg_read_all_stats")
		}
		return nil, nil
	}
	q.committing = list
	r := Reason{ID: "commits-wait", Level: Fail, Remedy: connectStandby + leaveCommits,
		Verdict:  "Commits wait for a synchronous standby that does not answer, so claims, settling and enqueueing hang.",
		Evidence: []string{"synchronous_standby_names is " + settings["synchronous_standby_names"]}}
	for i, l := range list {
		if i == 3 {
			r.Evidence = append(r.Evidence, more(len(list)-i)...)
			break
		}
		r.Evidence = append(r.Evidence, waitsInCommit(l))
	}
	return []Reason{r}, nil
}

func waitsInCommit(l locker) string {
	return fmt.Sprintf("%s has waited in its commit for %v", l.session(), short(seconds(l.open.Float64)))
}

// leaveCommits says what not to do about sessions whose commits wait.
const leaveCommits = ". Do not end the waiting sessions: what they have written is committed on this server already"

// connectStandby is what to do about commits that wait for a standby.
const connectStandby = "connect the standby; or, so that commits do without it: ALTER SYSTEM RESET synchronous_standby_names, then SELECT pg_reload_conf()"

// waitingCommits returns the sessions whose commits wait. A statement that has run for long and
// waits only now is not meant, so it looks twice.
func (s *server) waitingCommits(ctx context.Context) ([]locker, error) {
	before, err := s.readLockers(ctx, "commits")
	if err != nil || len(before) == 0 {
		return nil, err
	}
	if err := pause(ctx, briefly); err != nil {
		return nil, err
	}
	now, err := s.readLockers(ctx, "commits")
	isNew := func(l locker) bool { return !slices.ContainsFunc(before, l.isSame) }
	return slices.DeleteFunc(now, isNew), err
}

// isCommitting reports whether the transaction is one whose commit waits for a standby. Ending its
// session undoes nothing, so it is no reason of its own.
func (q *inquiry) isCommitting(l locker) bool {
	return slices.ContainsFunc(q.committing, func(c locker) bool { return c.pid == l.pid })
}
