package peer

import (
	"context"

	"github.com/errandhq/errand/backend/remote"
)

// GatewayToken is the secret of the gateway's clients.
const GatewayToken = "bench-measures-hops"

// behindGateway is errand as a client of a gateway has it: it enqueues and works. It has no
// connection to the database, so it has no other operations.
type behindGateway struct{ errand }

// openErrandRemote opens errand behind the gateway of c, or errand on its DSN if c has none: the
// process that measures looks into the table.
func openErrandRemote(ctx context.Context, c Config) (Peer, error) {
	if c.Gateway == "" {
		return openErrand(ctx, c)
	}
	q, err := remote.New([]string{c.Gateway}, remote.Options{Token: GatewayToken})
	if err != nil {
		return nil, err
	}
	return &behindGateway{errand{config: c, queue: q}}, nil
}

func (b *behindGateway) Close() error { return nil }
