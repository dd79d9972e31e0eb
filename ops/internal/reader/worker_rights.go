package reader

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/errandhq/errand/ops/internal/words"
)

// WorkerRole is a role that may log in, and what it lacks of the rights that a worker needs.
type WorkerRole struct {
	Name  string
	Lacks []string
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
	for r := range maps.Keys(WantedRights()["worker"]) {
		kind, object, _ := strings.Cut(strings.TrimPrefix(r.Object, "the "), " ")
		object, part, _ := strings.Cut(object, ".")
		if !slices.Contains(notToClaim, object) && !slices.Contains(notToClaimRights, r.String()) {
			list = append(list, neededRight{kind, object, part, r.Name, r.String()})
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

// WorkerRoles returns the roles that may log in and are no superusers.
func (s *Server) WorkerRoles(ctx context.Context) (list []WorkerRole, err error) {
	needed, err := json.Marshal(neededRights())
	if err != nil {
		return nil, err
	}
	err = s.Rows(ctx, "worker_roles", func(r *sql.Rows) error {
		var role WorkerRole
		var lacks []byte
		if err := r.Scan(&role.Name, &lacks, &role.isMeant, &role.standard); err != nil {
			return err
		}
		list = append(list, role)
		return json.Unmarshal(lacks, &list[len(list)-1].Lacks)
	}, string(needed))
	return list, err
}

// MayNotWork returns the roles that lack rights, although it looks as if workers should have them.
func MayNotWork(roles []WorkerRole) []WorkerRole {
	return slices.DeleteFunc(slices.Clone(roles), func(r WorkerRole) bool { return !r.isMeant || len(r.Lacks) == 0 })
}

// String names the role and what it lacks.
func (r WorkerRole) String() string {
	return fmt.Sprintf("the role %s lacks %s", r.Name, words.Enumerate(r.Lacks))
}

// GrantWorker is what to do about roles that lack rights: grant them the worker's role, or make
// that what it should be.
func (s *Server) GrantWorker(p words.Program, roles []WorkerRole) string {
	var names, standard, advice []string
	for _, r := range roles {
		if r.standard == "" {
			names = append(names, words.Identifier(r.Name))
		} else if !slices.Contains(standard, r.standard) {
			standard = append(standard, r.standard)
		}
	}
	if len(standard) > 0 {
		advice = append(advice, fmt.Sprintf("run docs/roles.sql of this release, because %s itself lacks rights: %s prints it",
			words.Enumerate(standard), p.Command("migrate", "print", "postgres", "--roles")))
	}
	if len(names) > 0 {
		advice = append(advice, "GRANT "+s.workerRole()+" TO "+strings.Join(names, ", ")+", or the role that has its rights: docs/roles.sql makes it")
	}
	return strings.Join(advice, "; ")
}

const defaultSchema = "errand"

// workerRole is the worker's role as errand migrate print --roles names it for the schema.
func (s *Server) workerRole() string {
	name := s.Tables.Schema + "_worker"
	if name != strings.ToLower(name) {
		return words.Identifier(name)
	}
	return name
}

// toReport are the tables that only reports of workers need.
var toReport = []string{"workers", "stats"}

// OnlyReports reports whether the roles lack only rights that reports need. Workers claim without.
func OnlyReports(roles []WorkerRole) bool {
	needed := neededRights()
	return !slices.ContainsFunc(roles, func(r WorkerRole) bool {
		return slices.ContainsFunc(needed, func(n neededRight) bool {
			return slices.Contains(r.Lacks, n.Text) && !slices.Contains(toReport, n.Object)
		})
	})
}
