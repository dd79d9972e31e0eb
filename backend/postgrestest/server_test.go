package postgrestest

import (
	"context"
	"database/sql"
	"strings"
	"testing"

	"github.com/errandhq/errand/internal/extent"
)

// given reports whether s was there before: then its settings are its own, and it
// outlives us.
func given(s *Server) bool { return strings.Contains(s.Description, "DATABASE_URL") }

func TestStart(t *testing.T) {
	extent.Long(t)
	s, err := Start(t.Context(), Options{Durable: true, Settings: map[string]string{"work_mem": "7MB"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Log(s.Description)
	db, err := sql.Open("pgx", s.DSN)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	run(t, db, "CREATE TABLE here ()")
	if !given(s) {
		wantSetting(t, db, "fsync", "on")
		wantSetting(t, db, "synchronous_commit", "on")
		wantSetting(t, db, "work_mem", "7MB")
	}
	for range 2 {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.PingContext(t.Context()); err == nil {
		t.Error("the database can still be connected to after Close")
	}
	if !given(s) {
		eventually(t, "all traces of the server to go", func() bool { return traces(t, s.Description, 0) == "" })
	}
}

func TestStartKeepsOurSecrets(t *testing.T) {
	extent.Long(t)
	t.Setenv("ERRAND_TEST_SECRET", "token")
	s, err := Start(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if given(s) {
		return
	}
	run(t, s.admin, "CREATE TABLE variables (variable text)")
	run(t, s.admin, "COPY variables FROM PROGRAM 'env'")
	var all, ours int
	err = s.admin.QueryRowContext(t.Context(),
		"SELECT count(*), count(*) FILTER (WHERE variable ~ 'ERRAND_TEST_SECRET') FROM variables").Scan(&all, &ours)
	if err != nil {
		t.Fatal(err)
	}
	if all == 0 || ours != 0 {
		t.Errorf("of the server's %d variables %d are our secret", all, ours)
	}
}

func TestStartIsEmpty(t *testing.T) {
	extent.Long(t)
	onTestServer(t)
	s, err := Start(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	db, err := sql.Open("postgres", s.DSN)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var schemas int
	if err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM pg_namespace WHERE nspname = 'errand'").Scan(&schemas); err != nil {
		t.Fatal(err)
	}
	if schemas != 0 {
		t.Error("the database has a schema errand already")
	}
}

func TestServerOfTests(t *testing.T) {
	extent.Long(t)
	s := testServer(t)
	if !strings.HasPrefix(s.Description, "PostgreSQL 1") {
		t.Errorf("got description %q, want PostgreSQL and its version", s.Description)
	}
	if password, _ := s.base.User.Password(); password != "" && strings.Contains(s.Description, password) {
		t.Error("the description gives the password away")
	}
	if given(s) {
		return
	}
	wantSetting(t, s.admin, "fsync", "off")
	wantSetting(t, s.admin, "full_page_writes", "off")
	wantSetting(t, s.admin, "synchronous_commit", "off")
	wantSetting(t, s.admin, "max_connections", "200")
	wantSetting(t, s.admin, "max_prepared_transactions", "20")
}

func TestStartEndsWithContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Start(ctx, Options{})
	if err == nil || !strings.Contains(err.Error(), context.Canceled.Error()) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
}

func TestStartRefusesSettings(t *testing.T) {
	extent.Long(t)
	if given(testServer(t)) {
		return
	}
	_, err := Start(t.Context(), Options{Settings: map[string]string{"no_such_setting": "1"}})
	if err == nil || !strings.Contains(err.Error(), `"no_such_setting"`) {
		t.Errorf("got %v, want what the server said of no_such_setting", err)
	}
}

// nowhere makes every way fail.
func nowhere(t *testing.T) {
	for _, name := range []string{"ERRAND_POSTGRES", "DATABASE_URL", "PATH", "DOCKER_MACHINE_NAME", "DOCKER_CERT_PATH"} {
		t.Setenv(name, "")
	}
	t.Setenv("DOCKER_HOST", "tcp://127.0.0.1:1")
	t.Setenv("TMPDIR", "/no/such/directory")
}

func TestNoServer(t *testing.T) {
	nowhere(t)
	_, err := Start(t.Context(), Options{})
	if err == nil {
		t.Fatal("got a server, want an error")
	}
	t.Log(err)
	for _, want := range []string{
		"\n\turl: DATABASE_URL is not set",
		"\n\tdocker: no Docker daemon answers: ",
		"\n\tlocal: ",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got %q, want it to contain %q", err, want)
		}
	}
}

func TestForcedWay(t *testing.T) {
	for way, want := range map[string]string{
		"url":    "one way only: url: DATABASE_URL is not set",
		"docker": "one way only: docker: no Docker daemon answers: ",
		"local":  "one way only: local: ",
		"cloud":  "ERRAND_POSTGRES=cloud: want url, docker or local",
	} {
		t.Run(way, func(t *testing.T) {
			nowhere(t)
			t.Setenv("ERRAND_POSTGRES", way)
			_, err := Start(t.Context(), Options{})
			if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v, want one line with %q", err, want)
			}
		})
	}
}

func wantSetting(t *testing.T, db *sql.DB, name, want string) {
	t.Helper()
	var got string
	if err := db.QueryRowContext(t.Context(), "SELECT current_setting($1)", name).Scan(&got); err != nil {
		t.Fatal(err)
	}
	if got != want {
		t.Errorf("got %s=%s, want %s", name, got, want)
	}
}
