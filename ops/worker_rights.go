package ops

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// workerRole is a role that may log in, and what it lacks of the rights that a worker needs.
type workerRole struct {
	name  string
	lacks []string
	// isMeant is whether it looks as if workers should have this role.
	isMeant bool
	// standard is the worker's role of docs/roles.sql that it has or is, "" for none. It lacks the
	// same.
	standard string
}

// notToClaim are the tables that a worker can do without, as long as it claims and reports itself.
var notToClaim = []string{"audit", "dedup", "jobs_archive", "results", "schedules"}

// notToClaimRights are such rights on other objects: for setting rules, for pausing, for Redrive,
// and for receiving jobs of other backends.
var notToClaimRights = []string{
	"EXECUTE on the function apply_rules", "EXECUTE on the function pause_rule", "EXECUTE on the function set_rules",
	"DELETE on the table rules", "INSERT on the table rules",
	"DELETE on the table paused_kinds", "INSERT on the column paused_kinds.kind",
	"UPDATE on the column jobs.created_at", "UPDATE on the column jobs.redriven_at", "UPDATE on the column jobs.redrives",
}

// neededRight is a right as sql/postgres/worker_roles.sql reads it.
type neededRight struct {
	Kind   string `json:"kind"` // schema, table, column, sequence or function
	Object string `json:"object"`
	Part   string `json:"part"` // the column
	Name   string `json:"name"`
	Text   string `json:"text"`
}

// neededRights are the rights of docs/roles.sql without which a worker does not claim or does not
// report itself.
func neededRights() (list []neededRight) {
	for r := range maps.Keys(wantedRights()["worker"]) {
		kind, object, _ := strings.Cut(strings.TrimPrefix(r.object, "the "), " ")
		object, part, _ := strings.Cut(object, ".")
		if !slices.Contains(notToClaim, object) && !slices.Contains(notToClaimRights, r.String()) {
			list = append(list, neededRight{kind, object, part, r.name, r.String()})
		}
	}
	// The most general ones first: without the schema the rest is of no use.
	kinds := []string{"schema", "function", "sequence", "table", "column"}
	slices.SortFunc(list, func(a, b neededRight) int {
		if a.Kind != b.Kind {
			return slices.Index(kinds, a.Kind) - slices.Index(kinds, b.Kind)
		}
		return strings.Compare(a.Text, b.Text)
	})
	return list
}

// workerRoles returns the roles that may log in and are no superusers.
func (s *server) workerRoles(ctx context.Context) (list []workerRole, err error) {
	needed, err := json.Marshal(neededRights())
	if err != nil {
		return nil, err
	}
	err = s.rows(ctx, "worker_roles", func(r *sql.Rows) error {
		var role workerRole
		var lacks []byte
		if err := r.Scan(&role.name, &lacks, &role.isMeant, &role.standard); err != nil {
			return err
		}
		list = append(list, role)
		return json.Unmarshal(lacks, &list[len(list)-1].lacks)
	}, string(needed))
	return list, err
}

// mayNotWork returns the roles that lack rights, although it looks as if workers should have them.
func mayNotWork(roles []workerRole) []workerRole {
	return slices.DeleteFunc(slices.Clone(roles), func(r workerRole) bool { return !r.isMeant || len(r.lacks) == 0 })
}

func (r workerRole) String() string {
	return fmt.Sprintf("the role %s lacks %s", r.name, enumerate(r.lacks))
}

// grantWorker is what to do about roles that lack rights: grant them the worker's role, or make
// that what it should be.
func (p program) grantWorker(roles []workerRole) string {
	var names, standard, advice []string
	for _, r := range roles {
		if r.standard == "" {
			names = append(names, identifier(r.name))
		} else if !slices.Contains(standard, r.standard) {
			standard = append(standard, r.standard)
		}
	}
	if len(standard) > 0 {
		advice = append(advice, fmt.Sprintf("run docs/roles.sql of this release, because %s itself lacks rights: %s prints it",
			enumerate(standard), p.command("migrate", "print", "postgres", "--roles")))
	}
	if len(names) > 0 {
		advice = append(advice, "GRANT errand_worker TO "+strings.Join(names, ", ")+", or the role that has its rights: docs/roles.sql makes it")
	}
	return strings.Join(advice, "; ")
}

// toReport are the tables that only reports of workers need.
var toReport = []string{"workers", "stats"}

// onlyReports reports whether the roles lack only rights that reports need. Workers claim without.
func onlyReports(roles []workerRole) bool {
	needed := neededRights()
	return !slices.ContainsFunc(roles, func(r workerRole) bool {
		return slices.ContainsFunc(needed, func(n neededRight) bool {
			return slices.Contains(r.lacks, n.Text) && !slices.Contains(toReport, n.Object)
		})
	})
}

// whyLacksRights returns the reason if a role that workers seem to have lacks rights, and no worker
// is known whose claims succeed.
func whyLacksRights(ctx context.Context, q *inquiry) ([]Reason, error) {
	if q.Server == nil || q.job.ScheduledAt.After(q.at) || slices.ContainsFunc(q.workers, claims) {
		return nil, nil
	}
	roles, err := q.Server.workerRoles(ctx)
	if ok, err := q.tryOrNote(ctx, "which roles have the rights of a worker", err); !ok {
		return nil, err
	}
	q.roles = roles
	lacking := mayNotWork(roles)
	if len(lacking) == 0 {
		return nil, nil
	}
	var evidence []string
	for _, r := range lacking[:min(len(lacking), 3)] {
		evidence = append(evidence, r.String())
	}
	cannot, then := "cannot claim, or not report themselves", ". Then start the workers again"
	if onlyReports(lacking) { // a worker whose claim is refused ends
		cannot, then = "cannot report themselves", ". Workers that run go on reporting then"
	}
	return []Reason{{ID: "no-rights", Level: Fail,
		Verdict:  fmt.Sprintf("Workers that connect as the role %s %s: it lacks rights.", lacking[0].name, cannot),
		Evidence: append(append(evidence, more(len(lacking)-3)...), "no worker is known whose claims succeed"), Remedy: q.grantWorker(lacking) + then}}, nil
}

// othersEnd is what becomes of other workers. See [engine.Worker].Run.
const othersEnd = ". A worker of another role ends at its first claim, with an error that names the right"

// describeWhoMayWork says which roles have the rights of a worker, if that is known.
func describeWhoMayWork(q *inquiry) []string {
	var may []string
	for _, r := range q.roles {
		if len(r.lacks) == 0 {
			may = append(may, r.name)
		}
	}
	switch {
	case q.roles == nil:
		return nil
	case len(may) == 0:
		return []string{"only superusers and the owner of the schema have the rights of a worker" + othersEnd}
	}
	return []string{"roles that may run a worker, beside superusers: " + enumerate(may) + othersEnd}
}

// findLackingRoles returns the finding for roles that workers seem to have and that lack rights;
// none if there are no such roles. While a worker claims, such a role may have other work.
func findLackingRoles(ctx context.Context, d *doctor) (finding, error) {
	roles, err := d.Server.workerRoles(ctx)
	if err != nil {
		return finding{}, err
	}
	lacking := mayNotWork(roles)
	if len(lacking) == 0 {
		return finding{}, nil
	}
	var texts []string
	for _, r := range lacking {
		texts = append(texts, r.String())
	}
	f := finding{Fail, "workers cannot work as these roles: " + enumerate(texts), d.grantWorker(lacking)}
	if workers, _, err := d.workers(ctx); err == nil && slices.ContainsFunc(workers, claims) {
		f.level, f.advice = Warn, "if workers have such a role: "+f.advice
	}
	return f, nil
}
