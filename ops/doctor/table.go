package doctor

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/errandhq/errand/ops"
	"github.com/errandhq/errand/ops/internal/reader"
	"github.com/errandhq/errand/ops/internal/words"
)

func schema(ctx context.Context, d *doctor) (finding, error) {
	var found int
	advice := "if this is the right database, run " + d.Command("migrate", "up") + ", postgres.Migrate with the same Options, or your migration tool"
	err := d.Server.Row(ctx, "schema", &found)
	if code := reader.SQLState(err); code == reader.UndefinedTable || code == reader.InvalidSchema {
		return finding{ops.Fail, fmt.Sprintf("this database has no schema %s with errand's tables", d.Server.Tables.Schema), advice}, nil
	}
	if err != nil {
		return finding{}, err
	}
	return judgeVersion(found, d.Server.Tables.Version, advice), nil
}

// sequences looks for those that give numbers that are in use. A fence is above that of the job's
// earlier claims whatever the sequence gives, so that one does no harm.
func sequences(ctx context.Context, d *doctor) (finding, error) {
	var behind []string
	level := ops.Warn
	err := d.Server.Rows(ctx, "sequences", func(r *sql.Rows) error {
		var name string
		var last, used int64
		if err := r.Scan(&name, &last, &used); err != nil {
			return err
		}
		if name != "fences" {
			level = ops.Fail
		}
		behind = append(behind, fmt.Sprintf("%s is at %d, and numbers up to %d are in use", name, last, used))
		return nil
	})
	if err != nil || len(behind) == 0 {
		return finding{value: "each is past the numbers that are in use"}, err
	}
	return finding{level, strings.Join(behind, "; ") + ", as after logical replication or a restore",
		"run " + d.Command("migrate", "repair") + ", or postgres.RepairSequences"}, nil
}

// table looks at what the table of jobs should not have.
func table(ctx context.Context, d *doctor) (finding, error) {
	s, err := d.Server.Stats(ctx)
	if err != nil {
		return finding{}, err
	}
	const shortest, wraps = 2 << 20, 1_000_000_000
	f := finding{value: fmt.Sprintf("%d MB, no triggers but errand's, no row security", s.Bytes>>20)}
	switch {
	case s.Age >= wraps:
		return finding{words.LevelOf(s.Age, wraps, wraps*8/5), fmt.Sprintf("its oldest row is %d million transactions old", s.Age/1_000_000),
			"the server stops writing at 2.1 billion: see the check horizon, then VACUUM (FREEZE) " + d.Server.Table("jobs")}, nil
	case s.HasRowSecurity:
		return finding{ops.Warn, "it has row security", "workers may not see all jobs: " + d.Server.DisableRowSecurity()}, nil
	case s.Triggers != "":
		return finding{ops.Warn, "it has triggers that are not errand's: " + s.Triggers, "such a trigger slows every call down, and may change jobs: DROP TRIGGER, unless you need it"}, nil
	case s.Bytes < shortest:
		return finding{ops.Warn, fmt.Sprintf("it has only %d kB", s.Bytes>>10),
			"the table was written anew or truncated, as by pg_restore, logical replication, VACUUM FULL, CLUSTER, REPACK or TRUNCATE. It is too short now, so the server may choose slow plans when it grows. " +
				"What makes it as long as the first migration does: " + lengthenTable(d.Server)}, nil
	}
	return f, nil
}

// lengthenTable returns the statements that make the table of jobs as long as the first migration
// does. Nobody sees their rows, because they are one transaction.
func lengthenTable(s *reader.Server) string {
	jobs := s.Table("jobs")
	return "BEGIN; INSERT INTO " + jobs + " (id, status, payload) SELECT -i, 'completed', to_jsonb(repeat('x', 1800)) FROM generate_series(1, 600) AS i; " +
		"DELETE FROM " + jobs + " WHERE id BETWEEN -600 AND -1; COMMIT"
}

// holder keeps VACUUM from removing dead rows.
type holder struct {
	kind, name               string
	xids                     int64
	held                     sql.NullFloat64
	application, role, state string
}

func readHolders(ctx context.Context, s *reader.Server) (list []holder, err error) {
	err = s.Rows(ctx, "horizon", func(r *sql.Rows) error {
		var h holder
		err := r.Scan(&h.kind, &h.name, &h.xids, &h.held, &h.application, &h.role, &h.state)
		list = append(list, h)
		return err
	})
	return list, err
}

// Slots and standbys do not tell since when they hold the horizon, only how many transactions ago
// that began.
const (
	manyXids    = 100_000
	tooManyXids = 10_000_000
)

func horizon(ctx context.Context, d *doctor) (finding, error) {
	list, err := readHolders(ctx, d.Server)
	if err != nil {
		return finding{}, err
	}
	worst := finding{value: "nothing keeps VACUUM from removing dead rows for long"}
	for _, h := range list {
		level := words.LevelOf(h.xids, manyXids, tooManyXids)
		if h.held.Valid {
			level = d.options.Horizon.level(words.Seconds(h.held.Float64))
		}
		if level == ops.Fail && worst.level != ops.Fail || level == ops.Warn && worst.level == "" {
			worst = finding{level, h.String(), h.remedy()}
		}
	}
	if worst.level == "" && !d.Server.SeesAll {
		return needsStats(d.Server, "no holder found"), nil
	}
	return worst, nil
}

// String says what the holder is.
func (h holder) String() string {
	var b strings.Builder
	switch h.kind {
	case "session":
		fmt.Fprintf(&b, "session %s", h.name)
	case "prepared":
		fmt.Fprintf(&b, "the prepared transaction %q", h.name)
	case "slot":
		fmt.Fprintf(&b, "the replication slot %q", h.name)
	default:
		fmt.Fprintf(&b, "the standby %q", h.name)
	}
	var about []string
	for _, part := range []struct{ what, value string }{{"application", h.application}, {"role", h.role}, {"", h.state}} {
		if part.value != "" {
			about = append(about, strings.TrimSpace(part.what+" "+part.value))
		}
	}
	if len(about) > 0 {
		fmt.Fprintf(&b, " (%s)", strings.Join(about, ", "))
	}
	b.WriteString(" keeps VACUUM from removing dead rows")
	if h.held.Valid {
		fmt.Fprintf(&b, ", for %v", words.Short(words.Seconds(h.held.Float64)))
	} else {
		fmt.Fprintf(&b, ", for %s", words.Count(h.xids, "transaction"))
	}
	return b.String()
}

// Remedy returns the statement that ends it.
func (h holder) remedy() string {
	switch h.kind {
	case "session":
		return "end its transaction, or: SELECT pg_terminate_backend(" + h.name + ")"
	case "prepared":
		return "COMMIT PREPARED or ROLLBACK PREPARED " + words.Literal(h.name)
	case "slot":
		return "let its standby catch up, or: SELECT pg_drop_replication_slot(" + words.Literal(h.name) + ")"
	}
	return "end the long query on the standby, or set its hot_standby_feedback to off"
}

// fewDead is up to how many dead rows a table is not worth a number: autovacuum leaves so many.
const fewDead = 10_000

func deadRows(ctx context.Context, d *doctor) (finding, error) {
	var dead, live int64
	var since sql.NullFloat64
	var isRunning bool
	if err := d.Server.Row(ctx, "dead_rows", &dead, &live, &since, &isRunning); err != nil {
		return finding{}, err
	}
	if dead <= fewDead {
		return finding{value: fmt.Sprintf("few: at most %d", fewDead)}, nil
	}
	f := finding{value: fmt.Sprintf("%s beside %s, and no VACUUM so far", words.Count(dead, "dead row"), words.Count(live, "live row")),
		advice: "see the checks horizon and autovacuum. If they find nothing: VACUUM " + d.Server.Table("jobs")}
	if since.Valid {
		f.value = fmt.Sprintf("%s beside %s, the last VACUUM was %v ago", words.Count(dead, "dead row"), words.Count(live, "live row"), words.Short(words.Seconds(since.Float64)))
	}
	if isRunning {
		f.value += ", a VACUUM is running"
	}
	isLate := !since.Valid || words.Seconds(since.Float64) > 10*time.Minute
	switch {
	case dead > 1_000_000 && isLate && !isRunning:
		f.level = ops.Fail
	case dead > 100_000:
		f.level = ops.Warn
	}
	return f, nil
}

func autovacuum(ctx context.Context, d *doctor) (finding, error) {
	values, err := d.Server.Settings(ctx)
	if err != nil {
		return finding{}, err
	}
	t, err := d.Server.Stats(ctx)
	switch {
	case err != nil:
		return finding{}, err
	case values["autovacuum"] == "off":
		return finding{ops.Fail, "autovacuum is off", "ALTER SYSTEM SET autovacuum = on; SELECT pg_reload_conf()"}, nil
	case values["track_counts"] == "off":
		return finding{ops.Fail, "track_counts is off, so autovacuum does nothing", "ALTER SYSTEM SET track_counts = on; SELECT pg_reload_conf()"}, nil
	case t.NoAutovacuum:
		return finding{ops.Fail, "autovacuum is off for the table of jobs", "ALTER TABLE " + d.Server.Table("jobs") + " RESET (autovacuum_enabled)"}, nil
	}
	return finding{value: "on"}, nil
}

func staleLeases(ctx context.Context, d *doctor) (finding, error) {
	var jobs, workers int
	if err := d.Server.Row(ctx, "stale_leases", &jobs, &workers); err != nil {
		return finding{}, err
	}
	if jobs == 0 {
		return finding{value: "none"}, nil
	}
	return finding{words.LevelOf(jobs, 1, 1000),
		fmt.Sprintf("%s of %s: the leases expired long ago, and no worker has reclaimed them", words.Count(jobs, "running job"), words.Count(workers, "worker")),
		startReclaimer}, nil
}

// startReclaimer is what to do about jobs that nobody reclaims.
const startReclaimer = "start a worker: every worker reclaims the jobs of all queues"
