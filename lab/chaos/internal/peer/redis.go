package peer

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/errandhq/errand/backend/redis"
	"github.com/errandhq/errand/queue"
)

// onRedis is errand on a Redis Cluster.
type onRedis struct {
	client  rueidis.Client
	queue   *redis.Backend
	options redis.Options
}

const (
	redisNamespace = "chaos"
	// RedisPartitions is how many partitions there are. Each is in a slot of its own, and the queue
	// is in half of them, unless the DSN says otherwise.
	RedisPartitions = 16
)

// RedisKey returns a key of a partition. All of a partition's keys are in one slot.
func RedisKey(partition int) string { return fmt.Sprintf("{%s:%d}:meta", redisNamespace, partition) }

// RedisPartition returns the partition of a job, by its ID.
func RedisPartition(id int64) int { return int((id - 1) % RedisPartitions) }

// RedisQueueKey returns a key of the first partition of the queue.
func RedisQueueKey() string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(queue.DefaultQueue)) // never fails
	return RedisKey(int(h.Sum32() % RedisPartitions))
}

// RedisDSN returns the DSN of a cluster, of which some nodes are known. A scenario may add "?" and
// a query: from is the host of the client, and spread in how many partitions the queue is.
func RedisDSN(addrs []string) string { return strings.Join(addrs, ",") }

// RedisClient opens a client of a cluster by its DSN. The caller closes it.
func RedisClient(dsn string) (rueidis.Client, error) {
	nodes, query, err := cutDSN(dsn)
	if err != nil {
		return nil, err
	}
	o := rueidis.ClientOption{InitAddress: nodes, DisableCache: true, ConnWriteTimeout: 3 * time.Second}
	if from := query.Get("from"); from != "" {
		o.Dialer.LocalAddr = &net.TCPAddr{IP: net.ParseIP(from)}
	}
	return rueidis.NewClient(o)
}

// RedisOptions returns the options of a system's backend on a cluster.
func RedisOptions(dsn string, durable int) (o redis.Options, err error) {
	_, query, err := cutDSN(dsn)
	if err != nil {
		return o, err
	}
	o = redis.Options{Namespace: redisNamespace, Partitions: RedisPartitions, Spread: RedisPartitions / 2, Durable: durable}
	if spread := query.Get("spread"); spread != "" {
		o.Spread, err = strconv.Atoi(spread)
	}
	return o, err
}

func cutDSN(dsn string) (nodes []string, query url.Values, err error) {
	list, text, _ := strings.Cut(dsn, "?")
	query, err = url.ParseQuery(text)
	return strings.Split(list, ","), query, err
}

// openRedis opens errand, whose Enqueue waits for the replica of each master.
func openRedis(ctx context.Context, dsn string, _ int) (Peer, error) {
	return openOnCluster(ctx, dsn, 1)
}

// openRedisAsync opens errand, whose Enqueue waits for no replica.
func openRedisAsync(ctx context.Context, dsn string, _ int) (Peer, error) {
	return openOnCluster(ctx, dsn, 0)
}

func openOnCluster(ctx context.Context, dsn string, durable int) (Peer, error) {
	o, err := RedisOptions(dsn, durable)
	if err != nil {
		return nil, err
	}
	client, err := RedisClient(dsn)
	if err != nil {
		return nil, err
	}
	q, err := redis.New(ctx, client, o)
	if err != nil {
		client.Close()
		return nil, err
	}
	return &onRedis{client, q, o}, nil
}

// Install does nothing: the first process that opens a namespace makes it.
func (r *onRedis) Install(context.Context) error { return nil }

func (r *onRedis) Enqueue(ctx context.Context, kind Kind, numbers ...int) error {
	return r.queue.Enqueue(ctx, nil, newJobs(kind, numbers)...)
}

func (r *onRedis) Work(ctx context.Context, w Worker, handle Handler) error {
	o := r.options
	o.Retention.Completed = w.Keep
	q, err := redis.New(ctx, r.client, o)
	if err != nil {
		return err
	}
	observed := observed{q, w, new(sync.Map)}
	return observed.run(ctx, observed.mux(handle))
}

func (r *onRedis) Jobs(ctx context.Context, worker string) (jobs []Job, err error) {
	f := queue.Filter{Limit: 200} // each page asks all partitions for so many
	if worker != "" {
		f.Status = queue.StatusRunning
	}
	for {
		page, next, err := r.queue.Jobs(ctx, f)
		if err != nil {
			return nil, err
		}
		for i := range page {
			j, err := jobOf(&page[i])
			if err != nil {
				return nil, err
			}
			if worker == "" || j.Worker == worker {
				jobs = append(jobs, j)
			}
		}
		if f.Before = next; next == 0 {
			return jobs, nil
		}
	}
}

// jobOf returns a job as the audit has it.
func jobOf(rec *queue.Record) (j Job, err error) {
	j = Job{State: stateOf(rec.Status), Attempt: rec.Attempt, Worker: rec.Worker, Reason: rec.LastError, EndedAt: rec.FinishedAt}
	j.Row = fmt.Sprintf("%d | %s | %d | %d | %s | %v | %v | %s", rec.ID, rec.Status, rec.Attempt, rec.Fence, rec.Worker, rec.ScheduledAt, rec.UpdatedAt, rec.LastError)
	j.Number, err = NumberOf(&rec.Job)
	return j, err
}

func (r *onRedis) Live(ctx context.Context) (n int, err error) {
	counts, err := r.queue.Counts(ctx)
	for _, c := range counts {
		if stateOf(c.Status).Open() {
			n += int(c.Jobs)
		}
	}
	return n, err
}

// Engine returns the server's name and version, and what the cluster consists of.
func (r *onRedis) Engine(ctx context.Context) (string, error) {
	for _, node := range r.client.Nodes() {
		info, err1 := node.Do(ctx, node.B().Info().Section("server").Build()).ToString()
		known, err2 := node.Do(ctx, node.B().ClusterNodes().Build()).ToString()
		if err := errors.Join(err1, err2); err != nil {
			return "", err
		}
		_, after, _ := strings.Cut(info, "redis_version:")
		version, _, _ := strings.Cut(after, "\r\n")
		return fmt.Sprintf("Redis %s, %d masters and %d replicas", version, strings.Count(known, "master"), strings.Count(known, "slave")), nil
	}
	return "", errors.New("no node is known")
}

func (r *onRedis) Close() error {
	r.client.Close()
	return nil
}
