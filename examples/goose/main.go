// Goose shows how a team with a migration tool creates and upgrades errand's tables, with goose:
//
//	go run ./examples/goose
//
// errand's steps become files of the team's own migrations, in the same folder and sequence.
// steps.go has the function to copy. For another tool, change the lines that begin with -- +goose.
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	"github.com/pressly/goose/v3"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/queue"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := runOnServer(ctx); err != nil {
		log.Fatal(err)
	}
}

// runOnServer runs the story in an empty database and an empty folder.
func runOnServer(ctx context.Context) (err error) {
	server, err := postgrestest.Start(ctx, postgrestest.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	dir, err := os.MkdirTemp("", "migrations")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	db, err := sql.Open("pgx", server.DSN)
	if err != nil {
		return err
	}
	defer db.Close()
	return run(ctx, db, dir, os.Stdout)
}

// run plays the story: first set-up, an upgrade, and an attempt to go back.
func run(ctx context.Context, db *sql.DB, dir string, out io.Writer) error {
	steps, err := postgres.Migrations(postgres.Options{})
	if err != nil {
		return err
	}
	released := steps[:len(steps)-2] // let the team begin with a release that had two steps less

	fmt.Fprintln(out, "first set-up: the team's own tables, and errand's")
	if err := writeOwn(dir, "00001_users.sql", "users"); err != nil {
		return err
	}
	if err := up(ctx, db, dir, released, out); err != nil {
		return err
	}
	fmt.Fprintln(out, "a program of a later release says:", postgres.Check(ctx, db, postgres.Options{}))

	fmt.Fprintln(out, "upgrade: another table of the team's, and errand's new steps")
	if err := writeOwn(dir, fmt.Sprintf("%05d_orders.sql", len(released)+2), "orders"); err != nil {
		return err
	}
	if err := up(ctx, db, dir, steps, out); err != nil {
		return err
	}
	if err := enqueue(ctx, db); err != nil {
		return err
	}
	fmt.Fprintln(out, "Check finds nothing wrong, and a job is enqueued")

	if _, err := provider(db, dir, func(p *goose.Provider) ([]*goose.MigrationResult, error) {
		result, err := p.Down(ctx)
		return []*goose.MigrationResult{result}, err
	}); err == nil {
		return errors.New("a step was taken back")
	}
	fmt.Fprintln(out, "goose down fails: errand offers no way back")
	return postgres.Check(ctx, db, postgres.Options{})
}

// up writes the files that are missing, which a team commits, and runs goose up.
func up(ctx context.Context, db *sql.DB, dir string, steps []postgres.Migration, out io.Writer) error {
	if err := writeSteps(dir, steps); err != nil {
		return err
	}
	results, err := provider(db, dir, func(p *goose.Provider) ([]*goose.MigrationResult, error) { return p.Up(ctx) })
	for _, r := range results {
		fmt.Fprintln(out, "  goose up:", filepath.Base(r.Source.Path))
	}
	return err
}

// provider calls f with goose over the files in dir.
func provider(db *sql.DB, dir string, f func(*goose.Provider) ([]*goose.MigrationResult, error)) ([]*goose.MigrationResult, error) {
	p, err := goose.NewProvider(goose.DialectPostgres, db, os.DirFS(dir))
	if err != nil {
		return nil, err
	}
	return f(p)
}

// writeOwn writes a migration of the team's own.
func writeOwn(dir, name, table string) error {
	text := "-- +goose Up\nCREATE TABLE " + table + " (id bigserial PRIMARY KEY);\n\n-- +goose Down\nDROP TABLE " + table + ";\n"
	return os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600)
}

// enqueue checks that program and schema fit, and writes a job.
func enqueue(ctx context.Context, db *sql.DB) error {
	if err := postgres.Check(ctx, db, postgres.Options{}); err != nil {
		return err
	}
	q, err := postgres.New(db, postgres.Options{})
	if err != nil {
		return err
	}
	return q.Enqueue(ctx, nil, &queue.Job{Kind: "email.welcome"})
}
