package reader_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	_ "github.com/lib/pq"

	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/ops/internal/opstest"
)

var update = flag.Bool("update", false, "write rights.txt again")

// TestGoldenRights: rights.txt is what docs/roles.sql grants. After a change of it run
// go test ./ops/internal/reader -run TestGoldenRights -update.
func TestGoldenRights(t *testing.T) {
	t.Parallel()
	const path = "sql/postgres/rights.txt"
	db := postgrestest.Open(t)
	prefix := opstest.Roles(t, db)
	query, err := os.ReadFile("sql/postgres/grants.sql")
	if err != nil {
		t.Fatal(err)
	}
	rows, err := db.QueryContext(t.Context(), string(query))
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var b strings.Builder
	for rows.Next() {
		var role, object, right string
		if err := rows.Scan(&role, &object, &right); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s\t%s\t%s\n", strings.TrimPrefix(role, prefix), object, right)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(path, []byte(b.String()), 0o666); err != nil {
			t.Fatal(err)
		}
		return
	}
	if golden, err := os.ReadFile(path); err != nil || b.String() != string(golden) {
		t.Errorf("docs/roles.sql grants other rights, error %v: run go test ./ops/internal/reader -run TestGoldenRights -update", err)
	}
}
