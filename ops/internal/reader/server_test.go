package reader_test

import (
	"database/sql"
	"testing"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/ops/internal/reader"
)

// TestNotCompiled: the server compiles no statement of doctor and explain, whatever its plan costs.
func TestNotCompiled(t *testing.T) {
	t.Parallel()
	db := postgrestest.Open(t)
	backend, err := postgres.New(db, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	server := reader.Server{Tables: backend.Tables()}
	var jit string
	err = server.Query(t.Context(), "SHOW jit", func(r *sql.Rows) error { return r.Scan(&jit) })
	if err != nil || jit != "off" {
		t.Errorf("jit: got %q, error %v; want off", jit, err)
	}
}
