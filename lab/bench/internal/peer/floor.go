package peer

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/errandhq/errand/lab/internal/peer"
)

// floor is hand-written SQL on errand's own table: a claim and a settle statement, each on its own
// connection, in batches of a thousand. It has no leases, wake-ups or anything else of a queue. So
// the difference to it is what these cost.
type floor struct {
	dsn      string
	progress progressReader
	pool     *pgxpool.Pool // for writing
}

const floorBatch = 1000

var (
	//go:embed floor_claim.sql
	floorClaim string
	//go:embed floor_settle.sql
	floorSettle string
	//go:embed floor_enqueue.sql
	floorEnqueue string
	//go:embed floor_enqueue_one.sql
	floorEnqueueOne string
)

func openFloor(ctx context.Context, c Config) (Peer, error) {
	pool, err := peer.OpenPool(ctx, c.DSN, poolSize)
	if err != nil {
		return nil, err
	}
	return &floor{dsn: c.DSN, progress: readPostgres(c.DSN), pool: pool}, nil
}

func (f *floor) Install(ctx context.Context) error {
	p, err := openErrand(ctx, Config{DSN: f.dsn})
	if err != nil {
		return err
	}
	return errors.Join(p.Install(ctx), p.Close())
}

func (f *floor) Enqueue(ctx context.Context, first, n int) error {
	payloads := make([]string, n)
	for i := range payloads {
		payloads[i] = payload(first + i)
	}
	_, err := f.pool.Exec(ctx, floorEnqueue, kind, payloads)
	return err
}

func payload(number int) string {
	return fmt.Sprintf(`{"order": %d, "to": "alice@example.com"}`, number)
}

func (f *floor) EnqueueOne(ctx context.Context, number int) error {
	_, err := f.pool.Exec(ctx, floorEnqueueOne, kind, payload(number))
	return err
}

func (f *floor) Transact(ctx context.Context, number int, enqueue bool) error {
	return pgx.BeginFunc(ctx, f.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, insertBusiness, number); err != nil || !enqueue {
			return err
		}
		_, err := tx.Exec(ctx, floorEnqueueOne, kind, payload(number))
		return err
	})
}

// claimed is a batch that one connection has claimed and the other will settle.
type claimed struct {
	fence   int64
	ids     []int64
	numbers []int
}

// Work claims on one connection while it settles on the other.
func (f *floor) Work(ctx context.Context, handle func(int)) error {
	claimer, err := pgx.Connect(ctx, f.dsn)
	if err != nil {
		return err
	}
	defer claimer.Close(context.WithoutCancel(ctx))
	settler, err := pgx.Connect(ctx, f.dsn)
	if err != nil {
		return err
	}
	defer settler.Close(context.WithoutCancel(ctx))

	batches := make(chan claimed, 1)
	settled := make(chan error, 1)
	go func() { settled <- settleAll(context.WithoutCancel(ctx), settler, batches, handle) }()
	err = claimAll(ctx, claimer, batches)
	close(batches)
	return errors.Join(err, <-settled)
}

func claimAll(ctx context.Context, conn *pgx.Conn, batches chan<- claimed) error {
	for ctx.Err() == nil {
		batch, err := claimBatch(context.WithoutCancel(ctx), conn)
		if err != nil {
			return err
		}
		if len(batch.ids) == 0 {
			time.Sleep(time.Millisecond)
			continue
		}
		batches <- batch
	}
	return nil
}

func claimBatch(ctx context.Context, conn *pgx.Conn) (claimed, error) {
	batch := claimed{ids: make([]int64, 0, floorBatch), numbers: make([]int, 0, floorBatch)}
	rows, err := conn.Query(ctx, floorClaim, floorBatch, "floor")
	if err != nil {
		return batch, err
	}
	defer rows.Close()
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id, nil, nil, nil, &batch.fence); err != nil {
			return batch, err
		}
		batch.ids = append(batch.ids, id)
		batch.numbers = append(batch.numbers, numberIn(rows.RawValues()[2]))
	}
	return batch, rows.Err()
}

// numberIn reads the job's number from its payload. It is faster than a JSON decoder.
func numberIn(payload []byte) (number int) {
	_, rest, _ := bytes.Cut(payload, []byte(`"order": `))
	for _, c := range rest {
		if c < '0' || c > '9' {
			break
		}
		number = 10*number + int(c-'0')
	}
	return number
}

func settleAll(ctx context.Context, conn *pgx.Conn, batches <-chan claimed, handle func(int)) error {
	var failed error
	for batch := range batches { // drain the channel, so that the claimer never hangs
		if failed != nil {
			continue
		}
		for _, n := range batch.numbers {
			handle(n)
		}
		_, failed = conn.Exec(ctx, floorSettle, batch.ids, batch.fence, "floor")
	}
	return failed
}

func (f *floor) Unsettled(ctx context.Context) (bool, error) {
	return f.progress.queryBool(ctx, errandInPostgres.unsettled)
}

func (f *floor) Census(ctx context.Context) (Census, error) {
	return f.progress.census(ctx, errandInPostgres.census)
}

func (f *floor) Close() error {
	f.pool.Close()
	return f.progress.close()
}
