package postgrestest

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/errandhq/errand/internal/extent"
)

// onTestServer has Start use the server that there is by its URL.
func onTestServer(t *testing.T) *Server {
	s := testServer(t)
	t.Setenv("ERRAND_POSTGRES", "url")
	t.Setenv("DATABASE_URL", s.base.String())
	return s
}

func TestURLStaysAsItWas(t *testing.T) {
	onTestServer(t)
	s, err := Start(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if !exists(t, s.name) {
		t.Errorf("database %s does not exist", s.name)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if exists(t, s.name) {
		t.Errorf("database %s exists after Close", s.name)
	}
}

func TestURLDropsWhatTheDeadLeft(t *testing.T) {
	extent.Long(t)
	const dead, stranger = "errand_test_000000000000_1", "errand_test_manually"
	living := onTestServer(t)
	for _, name := range []string{dead, stranger} {
		run(t, living.admin, "CREATE DATABASE "+name)
	}
	defer run(t, living.admin, "DROP DATABASE "+stranger)
	s, err := Start(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for name, want := range map[string]bool{dead: false, stranger: true, living.name: true, s.name: true} {
		if got := exists(t, name); got != want {
			t.Errorf("database %s: got exists=%v, want %v", name, got, want)
		}
	}
}

func TestURLUserMayNotCreate(t *testing.T) {
	s := onTestServer(t)
	run(t, s.admin, "CREATE ROLE errand_test_poor LOGIN PASSWORD 'secret'")
	defer run(t, s.admin, "DROP ROLE errand_test_poor")
	poor := *s.base
	poor.User = url.UserPassword("errand_test_poor", "secret")
	t.Setenv("DATABASE_URL", poor.String())
	_, err := Start(t.Context(), Options{})
	want := "the user errand_test_poor may not create databases, ALTER ROLE errand_test_poor CREATEDB would let it"
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q", err, want)
	}
}

// TestURLInFile: the server is the one whose URL is in the file.
func TestURLInFile(t *testing.T) {
	living := onTestServer(t)
	path := filepath.Join(t.TempDir(), "url")
	if err := os.WriteFile(path, []byte(living.base.String()+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("DATABASE_URL", "file:"+path)
	s, err := Start(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if !exists(t, s.name) {
		t.Errorf("database %s is not on the server of the file", s.name)
	}
}

func TestURLIsOfNoUse(t *testing.T) {
	t.Setenv("ERRAND_POSTGRES", "url")
	path := filepath.Join(t.TempDir(), "url")
	if err := os.WriteFile(path, []byte("me:secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	for env, want := range map[string]string{
		"":                                  "DATABASE_URL is not set",
		"postgres://me:secret@host/%zz":     "DATABASE_URL is not a URL",
		"mysql://me:secret@host/db":         "DATABASE_URL does not begin with postgres://",
		"host=localhost password=secret":    "DATABASE_URL does not begin with postgres://",
		"postgres://me:secret@127.0.0.1:1/": "DATABASE_URL: failed to connect",
		"file:" + path + ".not":             "DATABASE_URL: open " + path + ".not: no such file",
		"file:" + path:                      "the text of the file that DATABASE_URL names does not begin with postgres://",
	} {
		t.Setenv("DATABASE_URL", env)
		_, err := Start(t.Context(), Options{})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: got %v, want %q and no secret", env, err, want)
		}
	}
}
