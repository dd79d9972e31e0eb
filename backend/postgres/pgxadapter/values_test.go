package pgxadapter_test

import (
	"bytes"
	"context"
	"database/sql"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/errandhq/errand/backend/postgres/pgxadapter"
	"github.com/errandhq/errand/queue"
)

// expressions are values and NULLs of every type that is treated by itself, and some of those that
// are text.
var expressions = []string{
	"true", "false", "NULL::boolean",
	"(-32768)::smallint", "2147483647::integer", "(-9223372036854775808)::bigint", "NULL::bigint",
	"0.1::real", "'NaN'::real", "1e300::double precision", "'-Infinity'::double precision", "NULL::real",
	`'\x00ff5c'::bytea`, "''::bytea", "NULL::bytea",
	`'{"a": "\"\\"}'::json`, `'[1, null]'::jsonb`, "'null'::jsonb", "NULL::jsonb", "'<a/>'::xml",
	"'2026-02-28'::date", "'infinity'::date", "NULL::date",
	"'2026-02-28 23:59:59.123456'::timestamp", "'-infinity'::timestamp",
	"'2026-02-28 23:59:59.123456+05:30'::timestamptz", "'0044-03-15 12:00:00+00 BC'::timestamptz", "'infinity'::timestamptz", "NULL::timestamptz",
	"4294967295::oid", "'7'::xid", "'7'::cid", "NULL::oid",
	"'text'::text", "''::text", "NULL::text", "'é😀'::varchar(9)", "'c'::char(3)", "'n'::name",
	"123.4500::numeric", "'01234567-89ab-cdef-0123-456789abcdef'::uuid", "'{1,NULL}'::integer[]", "'{\"a b\",c}'::text[]",
	"'1 day 02:03:04'::interval", "'[1,2)'::int4range", "'10.0.0.1/8'::inet", "'completed'::errand.job_status", "'errand.jobs'::regclass",
	"ROW(1, 'a')",
}

// TestValues: values come as they do from pgx/v5/stdlib, whatever the mode.
func TestValues(t *testing.T) {
	query := "SELECT " + strings.Join(expressions, ", ") + " FROM generate_series(1, 2)"
	inModes(t, func(t *testing.T, pool *pgxpool.Pool) {
		db, _ := overPool(t, pool)
		got, want := rowsOf(t, pgxadapter.Tx(begin(t, pool)), query), rowsOf(t, db, query)
		if len(got) != 2 || len(want) != 2 {
			t.Fatalf("got %d rows, stdlib %d, want 2", len(got), len(want))
		}
		for n := range want {
			for i, expression := range expressions {
				if !same(got[n][i], want[n][i]) {
					t.Errorf("row %d, %s: got %T %[3]v, stdlib %T %[4]v", n+1, expression, got[n][i], want[n][i])
				}
			}
		}
	})
}

// rowsOf reads all that the query returns, as the driver has it.
func rowsOf(t *testing.T, db queue.DB, query string) (all [][]any) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		values := make([]any, len(expressions))
		dest := make([]any, len(values))
		for i := range values {
			dest[i] = &values[i]
		}
		if err := rows.Scan(dest...); err != nil {
			t.Fatal(err)
		}
		all = append(all, values)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// same compares values; those of time may be told in different zones.
func same(a, b any) bool {
	if ta, ok := a.(time.Time); ok {
		tb, ok := b.(time.Time)
		return ok && ta.Equal(tb)
	}
	if fa, ok := a.(float64); ok && fa != fa {
		fb, ok := b.(float64)
		return ok && fb != fb
	}
	return reflect.DeepEqual(a, b)
}

// TestRowsStayAsTheyWere: what has been scanned is not the connection's buffer.
func TestRowsStayAsTheyWere(t *testing.T) {
	db := pgxadapter.Tx(begin(t, openPool(t, "cache_statement")))
	rows, err := db.QueryContext(t.Context(), `SELECT jsonb_build_array(n), repeat('x', 20000) FROM generate_series(1, 50) AS n`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var kept [][]byte
	for rows.Next() {
		var payload []byte
		if err := rows.Scan(&payload, new(string)); err != nil {
			t.Fatal(err)
		}
		kept = append(kept, payload)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	if len(kept) != 50 || !bytes.Equal(kept[0], []byte("[1]")) || !bytes.Equal(kept[49], []byte("[50]")) {
		t.Errorf("got %d rows, from %s to %s; want 50, from [1] to [50]", len(kept), kept[0], kept[len(kept)-1])
	}
}

// TestArguments: pgx encodes them, those as well that database/sql does not know.
func TestArguments(t *testing.T) {
	at := time.Date(2026, 2, 28, 23, 59, 59, 123456000, time.UTC)
	inModes(t, func(t *testing.T, pool *pgxpool.Pool) {
		db := pgxadapter.Tx(begin(t, pool))
		for query, args := range map[string][]any{
			`SELECT $1::bigint = 42`:                                      {int64(42)},
			`SELECT $1::integer = 42`:                                     {42},
			`SELECT $1::text IS NULL`:                                     {nil},
			`SELECT $1::text = 'it''s' AND $2::boolean`:                   {"it's", true},
			`SELECT $1::bytea = '\x00ff'`:                                 {[]byte{0, 0xff}},
			`SELECT $1::timestamptz = '2026-02-28 23:59:59.123456+00'`:    {at},
			`SELECT $1::text = 'valued'`:                                  {sql.NullString{String: "valued", Valid: true}},
			`SELECT $1::double precision = 1.5`:                           {1.5},
			`SELECT $1::integer[] = '{1,2}' AND $2::text[] = '{"a","b"}'`: {[]int32{1, 2}, []string{"a", "b"}},
		} {
			if !value[bool](t, db, query, args...) {
				t.Errorf("%s is false for %v", query, args)
			}
		}
	})
}

func TestNamedArgument(t *testing.T) {
	db := pgxadapter.Tx(begin(t, openPool(t, "cache_statement")))
	_, err := read[int](t.Context(), db, `SELECT $1::integer`, sql.Named("n", 1))
	if err == nil || !strings.Contains(err.Error(), `"n"`) {
		t.Errorf("got %v, want an error that names the argument", err)
	}
}

// TestColumns: names come along, also of a query without rows.
func TestColumns(t *testing.T) {
	inModes(t, func(t *testing.T, pool *pgxpool.Pool) {
		rows, err := pgxadapter.DB(pool).QueryContext(context.Background(), `SELECT 1 AS a, 2 AS "B b" WHERE false`)
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		got, err := rows.Columns()
		if want := []string{"a", "B b"}; err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got columns %q, %v; want %q", got, err, want)
		}
		if rows.Next() || rows.Err() != nil {
			t.Errorf("got a row, or the error %v; want neither", rows.Err())
		}
	})
}

func TestRowsAffected(t *testing.T) {
	inModes(t, func(t *testing.T, pool *pgxpool.Pool) {
		db := pgxadapter.Tx(begin(t, pool))
		exec(t, db, `CREATE TEMP TABLE few AS SELECT generate_series(1, 5) AS n`)
		result, err := db.ExecContext(t.Context(), `DELETE FROM few WHERE n > $1`, 2)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := result.RowsAffected(); err != nil || got != 3 {
			t.Errorf("RowsAffected: got %d, %v; want 3", got, err)
		}
	})
}
