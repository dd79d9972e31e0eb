package peer

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/jackc/pgx/v5"
)

// graphile enqueues by SQL, as any language can. Its worker is graphile.js.
type graphile struct {
	config   Config
	insert   *pgx.Conn
	progress progressReader
}

func openGraphile(ctx context.Context, c Config) (Peer, error) {
	insert, err := pgx.Connect(ctx, c.DSN)
	if err != nil {
		return nil, err
	}
	return &graphile{config: c, insert: insert, progress: readPostgres(c.DSN)}, nil
}

func (g *graphile) Install(ctx context.Context) error {
	spec, err := json.Marshal(map[string]string{"part": "install", "dsn": g.config.DSN})
	if err != nil {
		return err
	}
	return graphileWorker.run(ctx, g.config.Node, string(spec))
}

// Enqueue must be called by one goroutine at a time: there is one connection.
func (g *graphile) Enqueue(ctx context.Context, first, n int) error {
	jobs := make([]json.RawMessage, n)
	for i := range jobs {
		payload, err := json.Marshal(newOrder(first + i))
		if err != nil {
			return err
		}
		jobs[i] = payload
	}
	_, err := g.insert.Exec(ctx, `SELECT count(*) FROM graphile_worker.add_jobs(ARRAY(
		SELECT json_populate_record(NULL::graphile_worker.job_spec, json_build_object('identifier', $1::text, 'payload', p::json))
		FROM unnest($2::text[]) AS p))`, kind, jobs)
	return err
}

func (g *graphile) EnqueueOne(ctx context.Context, number int) error {
	payload, err := json.Marshal(newOrder(number))
	if err != nil {
		return err
	}
	_, err = g.insert.Exec(ctx, `SELECT graphile_worker.add_job($1, $2::text::json)`, kind, string(payload))
	return err
}

// Work fails: the worker is a program for Node.
func (g *graphile) Work(context.Context, func(int)) error {
	return errors.New("graphile-worker does not work in a Go process")
}

func (g *graphile) Unsettled(ctx context.Context) (bool, error) {
	return g.progress.queryBool(ctx, `SELECT EXISTS (SELECT FROM graphile_worker._private_jobs)`)
}

// Census counts no completed jobs: graphile-worker deletes them.
func (g *graphile) Census(ctx context.Context) (Census, error) {
	return g.progress.census(ctx, `SELECT
		count(*) FILTER (WHERE last_error IS NULL),
		0::bigint,
		count(*) FILTER (WHERE last_error IS NOT NULL)
		FROM graphile_worker._private_jobs`)
}

func (g *graphile) Close() error {
	return errors.Join(g.progress.close(), g.insert.Close(context.Background()))
}
