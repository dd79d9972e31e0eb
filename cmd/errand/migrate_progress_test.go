package main

import (
	"bufio"
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/dburl"
	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/cmd/errand/internal/cli"
	"github.com/errandhq/errand/cmd/errand/internal/clitest"
)

// TestProgressOfMigrations: migrate up says how far it is while it waits.
func TestProgressOfMigrations(t *testing.T) {
	t.Parallel()
	database := clitest.Backends[1].URL(t, "")
	d, err := dburl.Open(database, dburl.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	list, err := postgres.Migrations(postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	tx, err := d.DB.BeginTx(t.Context(), nil) // another tool migrates, slowly
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(t.Context(), list[0].SQL); err != nil {
		t.Fatal(err)
	}
	said, out := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		a := &cli.App{In: strings.NewReader(""), Out: out, Err: out, Getenv: func(string) string { return "" }}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		ended <- run(ctx, a, []string{"migrate", "up", "--url", database})
		_ = out.Close()
	}()
	isTold := false
	for lines := bufio.NewScanner(said); lines.Scan(); {
		if !isTold && strings.Contains(lines.Text(), "migrate: 0 of ") {
			isTold = true
			if err := tx.Commit(); err != nil {
				t.Error(err)
			}
		}
	}
	if code := <-ended; code != cli.ExitDone || !isTold {
		t.Errorf("exit code %d, told how far it is: %v", code, isTold)
	}
}
