package server

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"
)

// needBouncer skips the test if there is no PgBouncer. In CI it fails the test.
func needBouncer(t *testing.T) {
	t.Helper()
	_, err := findBouncer()
	if err != nil && os.Getenv("CI") == "" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestBouncer connects more clients than the pooler has connections to the server.
func TestBouncer(t *testing.T) {
	needBouncer(t)
	b := startBouncer(t, start(t))
	url, err := b.Route(b.server.URL("postgres", "application_name", "w1"))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 * PoolSize {
		conn, err := pgx.Connect(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(t.Context())
		var name string
		if err := conn.QueryRow(t.Context(), "SELECT current_setting($1)", "application_name").Scan(&name); err != nil || name != "w1" {
			t.Fatalf("got application_name %s, %v, want w1", name, err)
		}
	}
}

func startBouncer(t *testing.T, p *Postgres) *Bouncer {
	t.Helper()
	b, err := p.StartBouncer(t.Context(), filepath.Base(t.Name())+"-bouncer")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}
