package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"log/slog"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/errandhq/errand/backend/internal/clockwatch"
	"github.com/errandhq/errand/backend/internal/limits"
	"github.com/errandhq/errand/backend/internal/sqlkit"
	"github.com/errandhq/errand/queue"
)

// Options configure [New]. The zero value works.
type Options struct {
	// Namespace is what all keys and channels begin with: letters, digits, "-", "_" and "."; ""
	// means "errand". Backends with different namespaces share a server and nothing else.
	Namespace string
	// Partitions is over how many parts the jobs of the namespace are spread; 0 means 64, at most
	// 1024. A partition is in one slot of a cluster, so this is also the highest number of masters
	// that can share the work. IDs grow with it: with 149 or more they pass 2^53 before 2027, with 64
	// in 2029, and need 64-bit integers. The first New stores it; it cannot be changed later.
	Partitions int
	// Spread is in how many partitions each queue is; 0 means 1. A queue in one partition has exact
	// order, and is as fast as one master. With more, order is exact within a partition only: see
	// the package comment. It is stored like Partitions.
	Spread int
	// Durable is how many replicas must have the jobs of an Enqueue before it returns, and rules and
	// schedules before the call that sets them does. 0 means that nothing waits: what was acknowledged
	// in the last second may be lost when a master dies. If fewer replicas have answered within
	// DurableTimeout, Enqueue returns [queue.ErrUnknown], and the other calls an error although the
	// master has the change.
	Durable int
	// DurableTimeout is how long Enqueue waits for replicas; 0 means a second. A server that hangs
	// gets three seconds more.
	DurableTimeout time.Duration
	// Retention says how long ended jobs are kept. Archive is an error: there is no archive.
	Retention queue.Retention
	// MaxPayload is the longest payload in bytes; 0 means [queue.DefaultMaxPayload].
	MaxPayload int
	// Logger gets a record of each job whose hash is lost, and, once a minute until people delete
	// its key, of each whose hash cannot be read. nil means [slog.Default].
	Logger *slog.Logger
	// ReadOnly makes every call fail that would change jobs, for tools that only look. New then
	// fails if the namespace is new. It still loads the functions into servers that miss them.
	ReadOnly bool
}

const (
	defaultPartitions = 64
	maxPartitions     = 1024
	defaultTimeout    = time.Second
)

// checked returns o with its defaults, or an [*queue.InvalidError].
func (o Options) checked() (Options, error) {
	o.Namespace = cmp.Or(o.Namespace, "errand")
	o.Partitions = cmp.Or(o.Partitions, defaultPartitions)
	o.Spread = cmp.Or(o.Spread, 1)
	o.DurableTimeout = cmp.Or(o.DurableTimeout, defaultTimeout)
	o.Retention = o.Retention.WithDefaults()
	switch {
	case strings.ContainsFunc(o.Namespace, isSpecial):
		return o, &queue.InvalidError{Field: "Options.Namespace", Problem: fmt.Sprintf("%q: letters, digits, -, _ and . only", o.Namespace)}
	case o.Partitions < 1 || o.Partitions > maxPartitions:
		return o, &queue.InvalidError{Field: "Options.Partitions", Problem: fmt.Sprintf("%d: between 1 and %d", o.Partitions, maxPartitions)}
	case o.Spread < 1 || o.Spread > o.Partitions:
		return o, &queue.InvalidError{Field: "Options.Spread", Problem: fmt.Sprintf("%d: between 1 and Partitions, %d", o.Spread, o.Partitions)}
	case o.Durable < 0:
		return o, &queue.InvalidError{Field: "Options.Durable", Problem: fmt.Sprintf("%d: at least 0", o.Durable)}
	case o.DurableTimeout < time.Millisecond:
		return o, &queue.InvalidError{Field: "Options.DurableTimeout", Problem: fmt.Sprintf("%v: at least 1ms", o.DurableTimeout)}
	case o.Retention.Archive:
		return o, &queue.InvalidError{Field: "Options.Retention.Archive", Problem: "Redis has no archive"}
	}
	return o, nil
}

// isSpecial reports whether a namespace may not have r.
func isSpecial(r rune) bool {
	isLetter := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
	return !isLetter && !strings.ContainsRune("0123456789-_.", r)
}

// Backend is a [queue.Queue] in Redis or Valkey. [New] makes one. It is safe for concurrent use,
// and starts no goroutines that outlive a call. It implements every optional interface of package
// driver except for [driver.TxClaimer], [driver.TxBeginner], [driver.Pooled] and [driver.Tabled],
// which are for SQL databases, [driver.Auditor], and [driver.DeathTeller] and [driver.Upkeeper],
// which it does not need.
type Backend struct {
	client rueidis.Client
	opts   Options
	tags   []string           // of the partitions: what their keys begin with
	clocks []clockwatch.Watch // of the partitions' servers, for reclaiming

	places atomic.Uint32               // counts enqueues: the next one of a spread queue goes to the next partition
	looks  atomic.Uint32               // counts claims: the next one of a spread queue begins at the next partition
	ticks  sqlkit.Ticks                // of schedules: what this process knows of the next one
	turns  limits.LastClaims[struct{}] // of queues with rules: how soon their workers claim again

	reopener reopener // of connections that lead to a replica
	unheard  unheard  // subscriptions that cannot be made
}

var _ queue.Queue = (*Backend)(nil)

// New returns a Backend on client, which the caller has opened and closes: a single node, or a
// cluster. It asks the server, and stores Partitions and Spread if the namespace is new. The error
// is an [*queue.InvalidError] for bad options, and a [*queue.SetupError] if the server cannot keep
// jobs: if it may evict keys, has no functions (Redis before 7), or keeps the namespace with other
// options.
func New(ctx context.Context, client rueidis.Client, o Options) (*Backend, error) {
	o, err := o.checked()
	if err != nil {
		return nil, err
	}
	b := &Backend{client: client, opts: o, tags: make([]string, o.Partitions), clocks: make([]clockwatch.Watch, o.Partitions)}
	for p := range b.tags {
		b.tags[p] = "{" + o.Namespace + ":" + strconv.Itoa(p) + "}:"
	}
	if err := b.Check(ctx); err != nil {
		return nil, err
	}
	return b, nil
}

// failed returns the error of an operation.
func failed(operation string, err error) error {
	if e, ok := errors.AsType[*rueidis.RedisError](err); ok && strings.Contains(e.Error(), "*_ro command") {
		err = errReadOnly
	}
	if isDenied(err) && !errors.Is(err, fs.ErrPermission) {
		return lacksRight(operation, err)
	}
	return fmt.Errorf("redis: %s: %w", operation, err)
}

// refuse returns an error for a handle that is not nil: Redis takes no part in SQL transactions.
func refuse(db queue.DB) error {
	if db == nil {
		return nil
	}
	return &queue.InvalidError{Field: "DB", Problem: fmt.Sprintf("%T: jobs in Redis take no part in SQL transactions; use nil", db)}
}

// firstOf returns the first partition of a queue.
func (b *Backend) firstOf(name string) int { return int(hash(name) % uint32(b.opts.Partitions)) }

// partition returns the queue's partition with that number, below Spread.
func (b *Backend) partition(name string, i int) int {
	return (b.firstOf(name) + i) % b.opts.Partitions
}

func hash(text string) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(text)) // never fails
	return h.Sum32()
}

// idOf returns the ID of the job with that number in a partition.
func (b *Backend) idOf(p int, seq int64) int64 {
	return (seq-1)*int64(b.opts.Partitions) + int64(p) + 1
}

// locate returns the partition of an ID, and the job's number there.
func (b *Backend) locate(id int64) (p int, seq int64) {
	n := int64(b.opts.Partitions)
	if id < 1 {
		return 0, 0 // no job has the number 0
	}
	return int((id - 1) % n), (id-1)/n + 1
}

// Check implements [driver.Checker].
func (b *Backend) Check(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return failed("check", err)
	}
	isOld, err := b.checkServers(ctx)
	if isOld { // its connections may be older than a switchover
		b.reopen(ctx)
		_, err = b.checkServers(ctx)
	}
	if err != nil {
		return err
	}
	if err := b.checkNamespace(ctx); err != nil {
		return err
	}
	if _, err := b.call(ctx, "expired", 0); err != nil { // it loads the functions where they are missing
		return setup(failed("check", err))
	}
	return nil
}

// checkServers returns an error if a server may evict keys, or if the only one takes no writes that
// are asked for. It asks the servers that it can reach, and reports whether the only one is a
// replica.
func (b *Backend) checkServers(ctx context.Context) (isReplica bool, err error) {
	var errs []error
	nodes := b.client.Nodes()
	for addr, node := range nodes {
		text, err := b.ask(ctx, node, func() rueidis.Completed { return node.B().Info().Section("memory", "replication").Build() }).ToString()
		if err != nil {
			errs = append(errs, err)
			continue
		}
		info := infoFields(text)
		if b.client.Mode() == rueidis.ClientModeStandalone && info["role"] == "slave" && !b.opts.ReadOnly {
			return true, &queue.SetupError{Problem: fmt.Sprintf("redis: the server %s is a replica, which takes no jobs: its master is %s:%s", addr, info["master_host"], info["master_port"])}
		}
		if policy := info["maxmemory_policy"]; policy != "" && policy != "noeviction" {
			return false, &queue.SetupError{Problem: fmt.Sprintf("redis: the server %s may delete jobs: its maxmemory-policy is %s; set it to noeviction", addr, policy)}
		}
	}
	if len(errs) == len(nodes) && len(errs) > 0 {
		return false, failed("check", errors.Join(errs...))
	}
	return false, nil
}

// format is the version of what is stored. A program refuses a namespace of another one.
const format = "2"

// fixedField is a field of the namespace's configuration, with what this program wants there.
type fixedField struct{ name, want string }

// fixed returns what is fixed for the namespace when it is made.
func (b *Backend) fixed() []fixedField {
	return []fixedField{{"format", format}, {"partitions", strconv.Itoa(b.opts.Partitions)}, {"spread", strconv.Itoa(b.opts.Spread)}}
}

// checkNamespace stores what is fixed for the namespace, or compares with what is stored.
func (b *Backend) checkNamespace(ctx context.Context) error {
	key := configKey(b.opts.Namespace)
	for _, fixed := range b.fixed() {
		got, err := b.fix(ctx, key, fixed.name, fixed.want)
		if err != nil {
			return setup(failed("check", err))
		}
		if got != fixed.want {
			return mismatch(b.opts.Namespace, fixed.name, got, fixed.want)
		}
	}
	return nil
}

// checkKept returns an error if the namespace is not as New has found or made it: if its keys were
// deleted, or the server has started again without its data. It makes the namespace anew then. If
// another program has done so with other options, the error says that.
func (b *Backend) checkKept(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	fields := b.fixed()
	kept, err := b.ask(ctx, b.client, func() rueidis.Completed {
		return b.client.B().Hmget().Key(configKey(b.opts.Namespace)).Field(fields[0].name, fields[1].name, fields[2].name).Build()
	}).AsStrSlice()
	if err != nil {
		return err
	}
	isKept := true
	for i, fixed := range fields {
		switch kept[i] {
		case fixed.want:
		case "":
			isKept = false
		default:
			return mismatch(b.opts.Namespace, fixed.name, kept[i], fixed.want)
		}
	}
	if isKept {
		return nil
	}
	gone := fmt.Errorf("the namespace %q has disappeared, and its jobs with it: its keys were deleted (FLUSHALL), or the server has started without its data (appendonly). It is made anew", b.opts.Namespace)
	return errors.Join(gone, b.checkNamespace(ctx))
}

// fix returns what is stored in a field, and stores want if it is nothing. It does not write
// otherwise: a server at maxmemory refuses that, and has workers that start to make room.
func (b *Backend) fix(ctx context.Context, key, field, want string) (got string, err error) {
	get := func() (string, error) {
		return b.ask(ctx, b.client, func() rueidis.Completed { return b.client.B().Hget().Key(key).Field(field).Build() }).ToString()
	}
	got, err = get()
	if !rueidis.IsRedisNil(err) {
		return got, err
	}
	if b.opts.ReadOnly {
		return "", &queue.SetupError{Problem: fmt.Sprintf("redis: there is no namespace %q: New without ReadOnly makes it", b.opts.Namespace)}
	}
	store := func() rueidis.Completed { return b.client.B().Hsetnx().Key(key).Field(field).Value(want).Build() }
	if err := b.ask(ctx, b.client, store).Error(); err != nil {
		return "", err
	}
	return get()
}

// mismatch is the error for a namespace that is kept with other options.
func mismatch(namespace, field, got, want string) error {
	e := &queue.SetupError{Problem: fmt.Sprintf("redis: the namespace %q has %s %s, and this program wants %s", namespace, field, got, want)}
	if field == "format" && got > want {
		e.Err = queue.ErrNewer
	}
	return e
}
