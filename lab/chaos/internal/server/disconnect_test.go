package server

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"
)

// TestAwaitDisconnect cuts a connection during a statement, as the end of its process does. The
// server finishes the statement, and AwaitDisconnect waits for that.
func TestAwaitDisconnect(t *testing.T) {
	p := start(t)
	if err := p.runStatement(t.Context(), "CREATE TABLE done (by text NOT NULL)", nil); err != nil {
		t.Fatal(err)
	}
	t.Run("direct", func(t *testing.T) {
		testAwaitDisconnect(t, p, p.URL("postgres", "application_name", "direct"), "direct", p.AwaitDisconnect)
	})
	t.Run("bounced", func(t *testing.T) {
		needBouncer(t)
		b := startBouncer(t, p)
		url, err := b.Route(p.URL("postgres", "application_name", "bounced"))
		if err != nil {
			t.Fatal(err)
		}
		testAwaitDisconnect(t, p, url, "bounced", b.AwaitDisconnect)
	})
}

func testAwaitDisconnect(t *testing.T, p *Postgres, url, name string, left func(context.Context, string) error) {
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := conn.PgConn().Hijack() // pgx itself would ask the server to cancel
	if err != nil {
		t.Fatal(err)
	}
	raw.Frontend.SendQuery(&pgproto3.Query{String: "INSERT INTO done SELECT '" + name + "' FROM pg_sleep(0.5)"})
	if err := raw.Frontend.Flush(); err != nil {
		t.Fatal(err)
	}
	err = await(t.Context(), func() (bool, error) {
		n, err := queryOne[int](t.Context(), p, "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND application_name = '"+name+"'")
		return n == 1, err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := raw.Conn.Close(); err != nil {
		t.Fatal(err)
	}
	if err := left(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	n, err := queryOne[int](t.Context(), p, "SELECT count(*) FROM done WHERE by = '"+name+"'")
	if err != nil || n != 1 {
		t.Errorf("got %d rows, %v, want 1", n, err)
	}
}
