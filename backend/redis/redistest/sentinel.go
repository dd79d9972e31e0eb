package redistest

import (
	"context"
	"fmt"
	"net"
)

// StartSentinel starts a Sentinel that watches the master with that address under a name. It takes
// a master that has not answered for half a second for dead, and makes a replica the master without
// asking other Sentinels.
func StartSentinel(ctx context.Context, name, master string) (*Server, error) {
	host, port, err := net.SplitHostPort(master)
	if err != nil {
		return nil, fmt.Errorf("redistest: %w", err)
	}
	config := fmt.Sprintf("sentinel monitor %s %s %s 1\nsentinel down-after-milliseconds %[1]s 500\nsentinel failover-timeout %[1]s 2000\n", name, host, port)
	return launch(ctx, 1, Options{config: config}, "--sentinel")
}
