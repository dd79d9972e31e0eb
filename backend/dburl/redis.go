package dburl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/errandhq/errand/backend/redis"
	"github.com/errandhq/errand/queue"
)

const (
	// connectTimeout is the default of [Options].ConnectTimeout.
	connectTimeout = 10 * time.Second
	// dialTimeout is how long one connection to Redis may take.
	dialTimeout = 5 * time.Second
)

func openRedis(rest string, scheme redisScheme, o Options) (*Database, error) {
	u, err := parseRedis(rest, scheme)
	if err != nil {
		return nil, err
	}
	timeout := cmp.Or(o.ConnectTimeout, connectTimeout)
	u.client.Dialer.Timeout = min(timeout, dialTimeout)
	u.client.Sentinel.Dialer.Timeout = u.client.Dialer.Timeout
	description := fmt.Sprintf("Redis namespace %s at %s", u.options.Namespace, u.place())
	client, err := rueidis.NewClient(u.client)
	if err != nil {
		return nil, fmt.Errorf("dburl: %s: %w", description, u.connectError(err))
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	u.options.Retention, u.options.ReadOnly = o.Retention, o.ReadOnly
	q, err := newRedis(ctx, client, u.options, o.MustExist || o.ReadOnly)
	if err != nil {
		client.Close()
		if e, ok := errors.AsType[*queue.InvalidError](err); ok {
			return nil, invalid("%s: %s", e.Field, e.Problem)
		}
		return nil, fmt.Errorf("dburl: %s: %w", description, err)
	}
	return &Database{
		Scheme:      Redis,
		Description: description,
		Queue:       q,
		migrate:     q.Check,
		close: func() error {
			client.Close()
			return nil
		},
	}, nil
}

// newRedis returns the backend of a namespace, which keeps the Partitions and the Spread that it
// has.
func newRedis(ctx context.Context, client rueidis.Client, o redis.Options, mustExist bool) (*redis.Backend, error) {
	stored, err := redis.Stored(ctx, client, o.Namespace)
	if err != nil {
		return nil, err
	}
	if mustExist && stored.Partitions == 0 {
		return nil, unused{}
	}
	o.Partitions, o.Spread = cmp.Or(o.Partitions, stored.Partitions), cmp.Or(o.Spread, stored.Spread)
	return redis.New(ctx, client, o)
}

// unused is the error of a namespace that nothing has used. It is an [fs.ErrNotExist].
type unused struct{}

func (unused) Error() string { return "no program has used this namespace yet" }

func (unused) Is(target error) bool { return target == fs.ErrNotExist }

// place returns where the servers are.
func (u *redisURL) place() string {
	hosts := strings.Join(u.client.InitAddress, ",")
	if master := u.client.Sentinel.MasterSet; master != "" {
		return fmt.Sprintf("the master %q of the Sentinels %s", master, hosts)
	}
	return hosts
}

// connectError returns err, or what is wrong with the URL: several hosts are no cluster, or the
// Sentinels do not know the master.
func (u *redisURL) connectError(err error) error {
	if u.client.Sentinel.MasterSet != "" {
		if rueidis.IsRedisNil(err) || strings.Contains(err.Error(), "No such master") {
			return &queue.InvalidError{Field: "URL", Problem: "the Sentinels know no master of the name that follows the hosts"}
		}
		return err
	}
	if len(u.client.InitAddress) > 1 && strings.Contains(err.Error(), "cluster support disabled") {
		return &queue.InvalidError{Field: "URL", Problem: "several hosts are nodes of a cluster, and these are none"}
	}
	return err
}
