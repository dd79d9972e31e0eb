package peer

import (
	"context"
	"database/sql"
	_ "embed"
	"encoding/json"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"
	"maragu.dev/goqite"

	"github.com/errandhq/errand/lab/internal/peer"
)

// goqiteReceivers is how many goroutines receive, handle and delete. One can do so while the disk
// writes the other's transaction.
const goqiteReceivers = 2

type goqitePeer struct {
	db       *sql.DB
	queue    *goqite.Queue
	progress progressReader
}

// openGoqite opens one connection, as goqite's examples do.
func openGoqite(_ context.Context, c Config) (Peer, error) {
	db, err := peer.OpenDB("sqlite", c.DSN, 1)
	if err != nil {
		return nil, err
	}
	return &goqitePeer{db: db, queue: goqite.New(goqite.NewOpts{DB: db, Name: kind}), progress: readSQLite(c.DSN)}, nil
}

func (g *goqitePeer) Install(ctx context.Context) error {
	_, err := g.db.ExecContext(ctx, goqiteSchema)
	return err
}

// goqiteSchema is goqite's schema_sqlite.sql, which its users copy: the module does not export it.
//
//go:embed goqite.sql
var goqiteSchema string

// Enqueue sends all jobs in one transaction: goqite has no batches.
func (g *goqitePeer) Enqueue(ctx context.Context, first, n int) error {
	tx, err := g.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	for i := range n {
		body, err := json.Marshal(newOrder(first + i))
		if err != nil {
			return err
		}
		if err := g.queue.SendTx(ctx, tx, goqite.Message{Body: body}); err != nil {
			return err
		}
	}
	return tx.Commit()
}

func (g *goqitePeer) EnqueueOne(ctx context.Context, number int) error {
	body, err := json.Marshal(newOrder(number))
	if err != nil {
		return err
	}
	return g.queue.Send(ctx, goqite.Message{Body: body})
}

// Work calls Receive, the handler, and Delete. goqite's own runner waits for a tick before each
// message.
func (g *goqitePeer) Work(ctx context.Context, handle func(int)) error {
	group, running := errgroup.WithContext(context.WithoutCancel(ctx))
	for range goqiteReceivers {
		group.Go(func() error {
			for ctx.Err() == nil && running.Err() == nil {
				if err := g.receive(running, handle); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// receive receives and handles one message, or waits a little if there is none.
func (g *goqitePeer) receive(ctx context.Context, handle func(int)) error {
	message, err := g.queue.Receive(ctx)
	if err != nil {
		return err
	}
	if message == nil {
		time.Sleep(time.Millisecond)
		return nil
	}
	var o order
	if err := json.Unmarshal(message.Body, &o); err != nil {
		return err
	}
	handle(o.Order)
	return g.queue.Delete(ctx, message.ID)
}

func (g *goqitePeer) Unsettled(ctx context.Context) (bool, error) {
	return g.progress.queryBool(ctx, `SELECT EXISTS (SELECT 1 FROM goqite)`)
}

// Census counts no completed jobs: goqite deletes them.
func (g *goqitePeer) Census(ctx context.Context) (Census, error) {
	return g.progress.census(ctx, `SELECT count(*), 0, count(*) FILTER (WHERE received > 1) FROM goqite`)
}

func (g *goqitePeer) Close() error { return errors.Join(g.progress.close(), g.db.Close()) }
