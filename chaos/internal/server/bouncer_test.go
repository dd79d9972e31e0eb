package server

import (
	"testing"

	"github.com/jackc/pgx/v5"
)

// TestBounce has more clients than there are connections to the server.
func TestBounce(t *testing.T) {
	if _, err := findBouncer(); err != nil {
		t.Skip(err)
	}
	b := bounce(t, start(t))
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

func bounce(t *testing.T, p *Postgres) *Bouncer {
	t.Helper()
	b, err := p.Bounce(t.Context(), "bouncer")
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
