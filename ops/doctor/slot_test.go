package doctor_test

import (
	"context"
	"database/sql"
	"encoding/binary"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/ops"
	"github.com/errandhq/errand/ops/doctor"
	"github.com/errandhq/errand/ops/internal/opstest"
	"github.com/errandhq/errand/queue"
)

// TestSlots: doctor finds the slot of a standby that has told which rows it still reads, and that
// slot does keep dead rows. It does not find a logical slot, which keeps none. Slots belong to a
// whole server, so the test has one of its own.
func TestSlots(t *testing.T) {
	extent.Long(t)
	t.Setenv("DATABASE_URL", "")
	t.Setenv("ERRAND_POSTGRES", strings.TrimPrefix(os.Getenv("ERRAND_POSTGRES_BEFORE"), "url"))
	s, err := postgrestest.Start(t.Context(), postgrestest.Options{Settings: map[string]string{"wal_level": "logical", "autovacuum": "off"}})
	if err != nil {
		opstest.SkipOutsideCI(t, fmt.Errorf("no server of its own: %w", err))
	}
	defer s.Close()
	db, err := sql.Open("pgx", s.DSN)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := postgres.Migrate(t.Context(), db, postgres.Options{}); err != nil {
		t.Fatal(err)
	}
	opstest.Exec(t, db, `VACUUM errand.jobs`)
	q := opstest.Backend(t, db, postgres.Options{})

	opstest.Exec(t, db, `SELECT pg_create_logical_replication_slot('logical', 'pgoutput')`)
	if left := deadRows(t, db); left > 0 {
		t.Errorf("a logical slot keeps %d dead rows", left)
	}
	found := opstest.Examine(t, q, doctor.Options{})
	if _, ok := found["horizon"]; ok {
		t.Errorf("found %v beside a logical slot", found)
	}

	standBy(t, db, s.DSN)
	opstest.Exec(t, db, `DO $$ BEGIN
		FOR i IN 1 .. 110000 LOOP
			BEGIN PERFORM pg_current_xact_id(); INSERT INTO errand.dedup VALUES (i::text, now()); EXCEPTION WHEN division_by_zero THEN NULL; END;
		END LOOP;
	END $$`)
	if left := deadRows(t, db); left == 0 {
		t.Error("the standby's slot keeps no dead rows")
	}
	found = opstest.Examine(t, q, doctor.Options{})
	c := found["horizon"]
	if want := "SELECT pg_drop_replication_slot('standby')"; c.Level != ops.Warn || c.Advice != "let its standby catch up, or: "+want {
		t.Errorf("horizon: %+v", c)
	}
	withoutStandby(t, db, q)
}

// withoutStandby makes commits wait for a synchronous standby that there is not: doctor says so.
func withoutStandby(t *testing.T, db *sql.DB, q queue.Queue) {
	t.Helper()
	opstest.Exec(t, db, `ALTER SYSTEM SET synchronous_standby_names = 'gone'`)
	opstest.Exec(t, db, `SELECT pg_reload_conf()`)
	opstest.SetDefault(t, db, "synchronous_commit", "on")
	opstest.Eventually(t, "the server waits for the standby", func() bool {
		report, err := doctor.Examine(t.Context(), q, doctor.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range report.Checks {
			if c.ID == "durability" && strings.Contains(c.Value, "(gone), and none is connected") && strings.Contains(c.Advice, "RESET synchronous_standby_names") {
				return true
			}
		}
		return false
	})
}

// deadRows makes a thousand dead rows, and returns how many VACUUM leaves.
func deadRows(t *testing.T, db *sql.DB) (left int) {
	t.Helper()
	opstest.Exec(t, db, `INSERT INTO errand.jobs (queue) SELECT 'q' FROM generate_series(1, 1000)`)
	opstest.Exec(t, db, `DELETE FROM errand.jobs`)
	opstest.Exec(t, db, `VACUUM errand.jobs`)
	err := db.QueryRowContext(t.Context(), `SELECT n_dead_tup FROM pg_stat_all_tables WHERE relid = 'errand.jobs'::regclass`).Scan(&left)
	if err != nil {
		t.Fatal(err)
	}
	return left
}

// standBy does what a standby with hot_standby_feedback does: it streams from a slot, and says that
// it needs the rows of the current transactions. The slot keeps that when the connection has ended.
func standBy(t *testing.T, db *sql.DB, dsn string) {
	t.Helper()
	var rules string
	if err := db.QueryRowContext(t.Context(), `SHOW hba_file`).Scan(&rules); err != nil {
		t.Fatal(err)
	}
	opstest.Exec(t, db, `COPY (SELECT 'host replication all all trust') TO PROGRAM 'cat >> "`+rules+`"'`) // Docker's has no such line
	opstest.Exec(t, db, `SELECT pg_reload_conf()`)
	opstest.Exec(t, db, `SELECT pg_create_physical_replication_slot('standby', true)`)
	var at string
	var xid int64
	if err := db.QueryRowContext(t.Context(), `SELECT pg_current_wal_flush_lsn()::text, pg_current_xact_id()::text::bigint`).Scan(&at, &xid); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	var conn *pgconn.PgConn
	opstest.Eventually(t, "the server takes a standby", func() bool {
		var err error
		conn, err = pgconn.Connect(ctx, dsn+"&replication=true")
		return err == nil
	})
	var reading sync.WaitGroup
	read, stop := context.WithCancel(ctx)
	defer func() {
		stop()
		reading.Wait()
		_ = conn.Close(ctx)
	}()
	conn.Frontend().SendQuery(&pgproto3.Query{String: "START_REPLICATION SLOT standby PHYSICAL " + at})
	if err := conn.Frontend().Flush(); err != nil {
		t.Fatal(err)
	}
	if message, err := conn.ReceiveMessage(ctx); err != nil {
		t.Fatal(err)
	} else if _, ok := message.(*pgproto3.CopyBothResponse); !ok {
		t.Fatalf("START_REPLICATION: %+v", message)
	}
	feedback := []byte{'h'}
	feedback = binary.BigEndian.AppendUint64(feedback, 0)           // the time
	feedback = binary.BigEndian.AppendUint32(feedback, uint32(xid)) // xmin, and its epoch
	feedback = binary.BigEndian.AppendUint32(feedback, 0)
	feedback = binary.BigEndian.AppendUint32(feedback, 0) // catalog_xmin, and its epoch
	feedback = binary.BigEndian.AppendUint32(feedback, 0)
	conn.Frontend().Send(&pgproto3.CopyData{Data: feedback})
	if err := conn.Frontend().Flush(); err != nil {
		t.Fatal(err)
	}
	reading.Go(func() { // reads what is streamed
		for err := error(nil); err == nil; {
			_, err = conn.ReceiveMessage(read)
		}
	})
	opstest.Eventually(t, "the slot has an xmin", func() (has bool) {
		err := db.QueryRowContext(t.Context(), `SELECT xmin IS NOT NULL FROM pg_replication_slots WHERE slot_name = 'standby'`).Scan(&has)
		return err == nil && has
	})
}
