package server

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// AwaitDisconnect waits until the server has no session of an ended process. Then the statements of
// the process, for example a claim, are done or never will be. Sessions are known by their
// application_name.
func (p *Postgres) AwaitDisconnect(ctx context.Context, application string) error {
	return p.awaitNoSession(ctx, application, nil)
}

// AwaitDisconnect is like [Postgres.AwaitDisconnect]. It waits until the pooler has no client of
// the process, and the server no session that served one, except sessions that the pooler still
// uses.
func (b *Bouncer) AwaitDisconnect(ctx context.Context, application string) error {
	console, err := b.console(ctx)
	if err != nil {
		return err
	}
	defer console.Close(ctx)
	err = await(ctx, func() (bool, error) {
		clients, err := column[string](ctx, console, "SHOW CLIENTS", "application_name")
		return !slices.Contains(clients, application), err
	})
	if err != nil {
		return fmt.Errorf("clients of %s: %w", application, err)
	}
	pooled, err := column[int32](ctx, console, "SHOW SERVERS", "remote_pid")
	if err != nil {
		return err
	}
	return b.server.awaitNoSession(ctx, application, pooled)
}

// awaitNoSession waits until the server has no session of that name, except in the processes
// pooled.
func (p *Postgres) awaitNoSession(ctx context.Context, application string, pooled []int32) error {
	conn, err := pgx.Connect(ctx, p.URL("postgres"))
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	err = await(ctx, func() (left bool, err error) {
		err = conn.QueryRow(ctx, `SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = $1 AND pid <> ALL ($2::integer[]))`,
			application, append([]int32{}, pooled...)).Scan(&left) // nil would be NULL, and no pid is unequal to NULL
		return left, err
	})
	if err != nil {
		return fmt.Errorf("sessions of %s: %w", application, err)
	}
	return nil
}

// console connects to PgBouncer's console, which only accepts simple queries.
func (b *Bouncer) console(ctx context.Context) (*pgx.Conn, error) {
	url, err := b.Route(b.server.URL("pgbouncer"))
	if err != nil {
		return nil, err
	}
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	return pgx.ConnectConfig(ctx, config)
}

// column returns a column of what a command of the console shows.
func column[T any](ctx context.Context, console *pgx.Conn, command, name string) (values []T, err error) {
	rows, err := console.Query(ctx, command)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	i := slices.IndexFunc(rows.FieldDescriptions(), func(f pgconn.FieldDescription) bool { return f.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("%s: PgBouncer shows no %s", command, name)
	}
	targets := make([]any, len(rows.FieldDescriptions()))
	for rows.Next() {
		var value T
		targets[i] = &value
		if err := rows.Scan(targets...); err != nil {
			return nil, err
		}
		values = append(values, value)
	}
	return values, rows.Err()
}
