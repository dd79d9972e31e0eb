package postgres

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/errandhq/errand/backend/internal/sqlkit"
	"github.com/errandhq/errand/queue"
)

// A Sequence is one that was behind: its next numbers were in use. Logical replication does not
// copy sequences before PostgreSQL 19, and since then only at ALTER SUBSCRIPTION … REFRESH
// SEQUENCES. Some restores set them back.
type Sequence struct {
	Name string // jobs_id_seq, audit_id_seq or fences
	Last int64  // the last number that it has given
	Used int64  // the highest number in use
	Now  int64  // where it is now: its next number is higher
}

// repairSkips is how many numbers a repair leaves out behind the highest in use, so that a sequence
// never goes back if others draw from it at the same time.
const repairSkips = 1_000_000

// RepairSequences moves sequences that are behind past the numbers that are in use, and returns
// them. It may run beside workers and enqueuers, changes nothing if no sequence is behind, and
// needs the rights of the schema's owner. [Check] reports a sequence of IDs that is behind.
func RepairSequences(ctx context.Context, db *sql.DB, o Options) (repaired []Sequence, err error) {
	o, err = o.withDefaults()
	if err != nil {
		return nil, err
	}
	err = withRetry(ctx, func() (err error) {
		repaired, err = repairOnce(ctx, db, o.Schema)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("postgres: repair sequences of schema %q: %w", o.Schema, notSetUp(err, o.Schema, "migrate"))
	}
	return repaired, nil
}

// repairOnce does so under the lock of Migrate: two repairs would set a sequence back.
func repairOnce(ctx context.Context, db *sql.DB, schema string) ([]Sequence, error) {
	tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return nil, err
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock($1::bigint)`, lockKey("migrate", schema)); err != nil {
		return nil, err
	}
	behind, err := sequencesBehind(ctx, tx, schema)
	if err != nil {
		return nil, err
	}
	for i, s := range behind {
		behind[i].Now = s.target()
		if _, err := tx.ExecContext(ctx, setSequence(schema, s)); err != nil {
			return nil, err
		}
	}
	return behind, tx.Commit()
}

// target is where a repair moves the sequence.
func (s Sequence) target() int64 { return max(s.Used, s.Used+repairSkips) } // the sum may overflow

// setSequence returns the statement that mends a sequence.
func setSequence(schema string, s Sequence) string {
	return inSchema(fmt.Sprintf("SELECT setval('errand.%s', %d)", s.Name, s.target()), schema)
}

// sequencesBehind returns the sequences that are behind.
func sequencesBehind(ctx context.Context, db queue.DB, schema string) ([]Sequence, error) {
	return sqlkit.QueryAll(ctx, db, func(rows *sql.Rows, s *Sequence) error {
		return rows.Scan(&s.Name, &s.Last, &s.Used)
	}, inSchema(`SELECT sequence, last, used FROM errand.sequences_behind()`, schema))
}

// checkSequences returns a [*queue.SetupError] if a sequence of IDs is behind. That of the fences
// does no harm: see sql/claim.sql. A role that may not ask, because docs/roles.sql has not run
// since that was possible, gets no answer.
func checkSequences(ctx context.Context, db queue.DB, schema string) error {
	list, err := sequencesBehind(ctx, db, schema)
	if sqlState(err) == insufficientPrivilege {
		return nil
	}
	for _, s := range list {
		if s.Name != "fences" {
			return &queue.SetupError{Problem: fmt.Sprintf("the sequence %s is at %d, and numbers up to %d are in use: run %s, "+
				"errand migrate repair, or postgres.RepairSequences", s.Name, s.Last, s.Used, setSequence(schema, s))}
		}
	}
	return err
}

// explainUsedID makes a [*queue.SetupError] of the server's answer that an ID that a sequence has
// given is in use.
func explainUsedID(err error, schema string) error {
	if sqlState(err) != uniqueViolation {
		return err
	}
	for _, table := range []string{"jobs", "audit"} {
		if strings.Contains(err.Error(), `"`+table+`_pkey"`) {
			return &queue.SetupError{Problem: fmt.Sprintf(inSchema("the sequence %[1]s_id_seq gives IDs that are in use, as after logical replication "+
				"or a restore: run SELECT setval('errand.%[1]s_id_seq', (SELECT max(id) + %[2]d FROM errand.%[1]s)), "+
				"errand migrate repair, or postgres.RepairSequences", schema), table, repairSkips), Err: err}
		}
	}
	return err
}
