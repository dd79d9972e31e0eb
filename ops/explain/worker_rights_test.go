package explain_test

import (
	"database/sql"
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/ops"
	"github.com/errandhq/errand/ops/doctor"
	"github.com/errandhq/errand/ops/explain"
	"github.com/errandhq/errand/ops/internal/opstest"
	"github.com/errandhq/errand/queue"
)

// workerRoles are rights of a role that logs in, app. %s is its name.
var workerRoles = []struct {
	name   string
	grants string
	// lacks is the right that is missing, "" if nothing is to be found.
	lacks  string
	canRun bool
}{
	{"tables alone", `GRANT USAGE ON SCHEMA errand TO %s; GRANT ALL ON ALL TABLES IN SCHEMA errand TO %s`, "EXECUTE on the function bucket_full", false},
	{"nothing", ``, "USAGE on the schema", false},
	{"no reports", `GRANT PREFIXworker TO %s; REVOKE INSERT ON errand.workers FROM PREFIXworker`, "INSERT on the table workers", true},
	{"the worker's", `GRANT PREFIXworker TO %s`, "", true},
	{"claims alone", `GRANT PREFIXworker TO %s; REVOKE INSERT, DELETE ON errand.rules FROM PREFIXworker; REVOKE INSERT (kind), DELETE ON errand.paused_kinds FROM PREFIXworker;
		REVOKE UPDATE (created_at, redriven_at, redrives) ON errand.jobs FROM PREFIXworker;
		REVOKE EXECUTE ON FUNCTION errand.set_rules, errand.pause_rule, errand.apply_rules FROM PREFIXworker`, "", true},
	{"becomes the worker", `ALTER ROLE %s NOINHERIT; GRANT PREFIXworker TO %s`, "", false},
	{"writes all", `DO $$BEGIN IF current_setting('server_version_num')::int >= 140000 THEN GRANT pg_write_all_data TO %s; END IF; END$$`, "", false},
	{"the observer's", `GRANT PREFIXobserver TO %s`, "", false},
	{"the enqueuer's", `GRANT PREFIXenqueuer TO %s`, "", false},
	{"the operator's", `GRANT PREFIXoperator TO %s`, "", false},
	{"reading", `GRANT USAGE ON SCHEMA errand TO %s; GRANT SELECT ON ALL TABLES IN SCHEMA errand TO %s`, "", false},
}

// TestWorkerRole: a role that a worker seems to have, and that lacks rights, is named with the
// first of them. Roles with other work are not.
func TestWorkerRole(t *testing.T) {
	extent.Long(t)
	t.Parallel()
	for _, c := range workerRoles {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dsn := postgrestest.DSN(t)
			db := opstest.OpenPQ(t, dsn)
			prefix := opstest.Roles(t, db)
			app := prefix + "app"
			opstest.Exec(t, db, `CREATE ROLE `+app+` LOGIN PASSWORD 'secret'`)
			if c.grants != "" {
				opstest.Exec(t, db, strings.NewReplacer("%s", app, "PREFIX", prefix).Replace(c.grants))
			}
			q := opstest.Backend(t, db, postgres.Options{})
			id := opstest.Enqueue(t, q, queue.Job{})
			own := opstest.OpenPQ(t, opstest.Change(t, dsn, func(u *url.URL) {
				u.User = url.UserPassword(app, "secret")
				query := u.Query()
				query.Set("application_name", "errand shop")
				u.RawQuery = query.Encode()
			}))
			wantWorks(t, own, c.canRun)
			opstest.Exec(t, own, `SELECT`) // its session stays
			observer := opstest.Backend(t, opstest.OpenPQ(t, dsn+"&role="+prefix+"observer"), postgres.Options{})
			for as, q := range map[string]*postgres.Backend{"owner": q, "observer": observer} {
				a := opstest.Explain(t, q, explain.Question{ID: id})
				first, found := a.Reasons[0], opstest.Examine(t, q, doctor.Options{})["rights"]
				says, remedy := "the role "+app+" lacks "+c.lacks, `GRANT errand_worker TO "`+app+`", or the role that has its rights: docs/roles.sql makes it. Then start the workers again`
				if ofStandard := c.name == "no reports"; ofStandard {
					remedy = "run docs/roles.sql of this release, because " + prefix + "worker itself lacks rights: errand migrate print postgres --roles prints it. Workers that run go on reporting then"
				}
				switch {
				case c.lacks == "":
					opstest.WantReason(t, a, "no-worker")
					if ofStandard := c.name == "claims alone"; found.Level != "" && !ofStandard {
						t.Errorf("%s: found %+v", as, found)
					}
				case opstest.ReasonIDs(a) != "no-rights no-worker" || !strings.Contains(first.Evidence[0], says) || first.Remedy != remedy:
					t.Errorf("%s: got %s, %+v, want %q", as, opstest.ReasonIDs(a), first, says)
				case found.Level != ops.Fail:
					t.Errorf("%s: found %+v, want that the role lacks a right", as, found)
				}
				if text := strings.Join(a.Reasons[len(a.Reasons)-1].Evidence, "\n"); strings.Contains(text, app) != (c.canRun && c.lacks == "") {
					t.Errorf("%s: who may work: %s", as, text)
				}
			}
			if ofStandard := c.name == "no reports"; c.lacks == "" || ofStandard {
				return
			}
			opstest.Report(t, q, opstest.Idle)
			if found := opstest.Examine(t, q, doctor.Options{})["rights"]; found.Level != ops.Warn {
				t.Errorf("while a worker claims: found %+v, want a warning", found)
			}
		})
	}
}

// wantWorks fails unless a claim through the handle succeeds, or is refused because of a right.
func wantWorks(t *testing.T, db *sql.DB, works bool) {
	t.Helper()
	_, err := opstest.Backend(t, db, postgres.Options{}).Claim(t.Context(), queue.ClaimRequest{Queues: []string{"none"}, Limit: 1, Lease: 1e9, Worker: "w"})
	if _, isSetup := errors.AsType[*queue.SetupError](err); works && err != nil || !works && !isSetup {
		t.Errorf("a claim as this role: %v, want that it works: %t", err, works)
	}
}
