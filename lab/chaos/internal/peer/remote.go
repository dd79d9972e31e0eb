package peer

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/errandhq/errand/backend/remote"
	"github.com/errandhq/errand/queue"
)

// Token is the secret of all clients of the gateways.
const Token = "chaos-breaks-gateways"

// RemoteTimeout is how long a client waits for the answer of a gateway. It is short, as leases are.
const RemoteTimeout = 1500 * time.Millisecond

// URLs returns the DSN of a client of these gateways, which asks the first one first.
func URLs(gateways ...string) string { return strings.Join(gateways, ",") }

// openRemote opens errand behind the gateways of a DSN of URLs, or errand on the database of any
// other DSN: the processes that are not clients of a gateway use it.
func openRemote(ctx context.Context, dsn string, connections int) (Peer, error) {
	if !strings.HasPrefix(dsn, "http://") {
		return openPostgres(ctx, dsn, connections)
	}
	q, err := remote.New(strings.Split(dsn, ","), remote.Options{Token: Token, Timeout: RemoteTimeout})
	if err != nil {
		return nil, err
	}
	return behindGateways{q}, nil
}

// behindGateways is errand as a client of a gateway sees it: it enqueues and works, and has only
// Plain jobs.
type behindGateways struct{ queue queue.Queue }

func (b behindGateways) Enqueue(ctx context.Context, kind Kind, numbers ...int) error {
	return b.queue.Enqueue(ctx, nil, newJobs(kind, numbers)...)
}

func (b behindGateways) Work(ctx context.Context, w Worker, handle Handler) error {
	observed := observed{b.queue, w, new(sync.Map)}
	return observed.run(ctx, observed.mux(handle))
}

func (b behindGateways) Install(context.Context) error { return errors.ErrUnsupported }

func (b behindGateways) Jobs(context.Context, string) ([]Job, error) {
	return nil, errors.ErrUnsupported
}

func (b behindGateways) Live(context.Context) (int, error) { return 0, errors.ErrUnsupported }

func (b behindGateways) Close() error { return nil }
