package locks

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/errandhq/errand/lab/chaos/internal/server"
)

// TestWaitIsSeen makes one session wait for another until the watch has read a few times.
func TestWaitIsSeen(t *testing.T) {
	servers, err := server.NewServers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := servers.Close(); err != nil {
			t.Error(err)
		}
	})
	p, err := servers.Start(t.Context(), "locks", server.NotDurable)
	if err != nil {
		t.Fatal(err)
	}
	connect := func(name string) *pgx.Conn {
		conn, err := pgx.Connect(t.Context(), p.URL("postgres", "application_name", name))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close(t.Context()) })
		return conn
	}
	holder, waiter := connect("holder"), connect("waiter")
	if _, err := holder.Exec(t.Context(), `SELECT pg_advisory_lock(1)`); err != nil {
		t.Fatal(err)
	}
	w, err := Start(t.Context(), p.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	const lasting = 100 * time.Millisecond
	waited := make(chan error)
	go func() {
		_, err := waiter.Exec(t.Context(), `SELECT pg_advisory_lock(1)`)
		waited <- err
	}()
	if _, err := holder.Exec(t.Context(), `SELECT pg_sleep($1)`, (2 * lasting).Seconds()); err != nil {
		t.Fatal(err)
	}
	if _, err := holder.Exec(t.Context(), `SELECT pg_advisory_unlock(1)`); err != nil {
		t.Fatal(err)
	}
	if err := <-waited; err != nil {
		t.Fatal(err)
	}
	waits, looks, gap, err := w.Stop()
	if err != nil || looks == 0 || gap <= 0 {
		t.Fatalf("got %d looks, gap %v, %v", looks, gap, err)
	}
	if len(waits) != 1 || waits[0].Session != "waiter" || waits[0].Took < lasting || !strings.Contains(waits[0].Lock, "advisory") {
		t.Errorf("got %v, want that waiter waited for %v", waits, lasting)
	}
}
