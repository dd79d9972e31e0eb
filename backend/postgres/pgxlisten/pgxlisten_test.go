package pgxlisten

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

// TestSilentServer: what a network swallows is given up, so that the caller can try again.
func TestSilentServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config, err := pgx.ParseConfig("postgres://u:p@127.0.0.1:5432/db?sslmode=disable")
		if err != nil {
			t.Fatal(err)
		}
		config.DialFunc = func(context.Context, string, string) (net.Conn, error) {
			client, server := net.Pipe()
			go func() { _, _ = io.Copy(io.Discard, server) }()
			return client, nil
		}
		db := sql.OpenDB(stdlib.GetConnector(*config))
		defer db.Close()
		begun := time.Now()
		err = Listen(t.Context(), db, "errand", func() { t.Error("ready") }, func(string) {})
		if took := time.Since(begun); !errors.Is(err, context.DeadlineExceeded) || took > 10*time.Second {
			t.Errorf("got %v after %v, want %v within 10s", err, took, context.DeadlineExceeded)
		}
	})
}
