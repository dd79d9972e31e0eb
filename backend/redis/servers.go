package redis

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/errandhq/errand/queue/driver"
)

// Servers implements [driver.Served]. Of a cluster it asks the nodes that the client knows.
func (b *Backend) Servers(ctx context.Context) ([]driver.ServerRecord, error) {
	if err := ctx.Err(); err != nil {
		return nil, failed("ask servers", err)
	}
	nodes := b.client.Nodes()
	all := make([]driver.ServerRecord, len(nodes))
	var asking sync.WaitGroup
	for i, addr := range slices.Sorted(maps.Keys(nodes)) {
		asking.Go(func() { all[i] = askServer(ctx, addr, nodes[addr]) })
	}
	asking.Wait()
	return all, ctx.Err()
}

// askServer asks one server.
func askServer(ctx context.Context, addr string, node rueidis.Client) driver.ServerRecord {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	s := driver.ServerRecord{Addr: addr}
	text, err := node.Do(ctx, node.B().Info().Build()).ToString()
	if err != nil {
		return driver.ServerRecord{Addr: addr, Err: err}
	}
	s.Info = infoFields(text)
	steps := []func(context.Context, rueidis.Client, *driver.ServerRecord) error{askConfig, askFunctions, askClock}
	if s.Info["cluster_enabled"] == "1" {
		steps = append(steps, askCluster)
	}
	for _, step := range steps {
		if err := step(ctx, node, &s); err != nil {
			return driver.ServerRecord{Addr: addr, Err: err}
		}
	}
	return s
}

// infoFields returns the fields of a text of INFO or CLUSTER INFO. The protocol marks it as text.
func infoFields(text string) map[string]string {
	fields := make(map[string]string)
	for line := range strings.Lines(strings.TrimPrefix(text, "txt:")) {
		if name, value, ok := strings.Cut(strings.TrimRight(line, "\r\n"), ":"); ok {
			fields[name] = value
		}
	}
	return fields
}

// orDenied notes the right in s if err says that the user lacks it, and else returns err.
func orDenied(err error, s *driver.ServerRecord, right string) error {
	if isDenied(err) {
		s.Denied = append(s.Denied, right)
		return nil
	}
	return err
}

func askConfig(ctx context.Context, node rueidis.Client, s *driver.ServerRecord) (err error) {
	s.Config, err = node.Do(ctx, node.B().ConfigGet().Parameter("appendfsync", "min-replicas-to-write").Build()).AsStrMap()
	return orDenied(err, s, "+config|get")
}

func askCluster(ctx context.Context, node rueidis.Client, s *driver.ServerRecord) error {
	text, err := node.Do(ctx, node.B().ClusterInfo().Build()).ToString()
	maps.Copy(s.Info, infoFields(text))
	return orDenied(err, s, "+cluster|info")
}

func askFunctions(ctx context.Context, node rueidis.Client, s *driver.ServerRecord) error {
	found, err := node.Do(ctx, node.B().FunctionList().Libraryname("errand_"+version).Build()).ToArray()
	s.HasCode = len(found) > 0
	return orDenied(err, s, "+function|list")
}

// clockAsks is how often a server is asked for the time: one slow answer is no slow server.
const clockAsks = 3

func askClock(ctx context.Context, node rueidis.Client, s *driver.ServerRecord) error {
	for range clockAsks {
		began := time.Now()
		parts, err := node.Do(ctx, node.B().Time().Build()).AsIntSlice()
		if err == nil && len(parts) != 2 {
			err = fmt.Errorf("TIME has %d parts", len(parts))
		}
		if err != nil {
			return err
		}
		if took := time.Since(began); s.Took == 0 || took < s.Took {
			s.Took = took
			s.Ahead = time.Unix(parts[0], parts[1]*int64(time.Microsecond)).Sub(began.Add(took / 2))
		}
	}
	return nil
}

// Leftovers implements [driver.Served]. It asks all partitions at once.
func (b *Backend) Leftovers(ctx context.Context) (l driver.Leftovers, err error) {
	if err := ctx.Err(); err != nil {
		return l, failed("leftovers", err)
	}
	answers, err := messages(b.onEach(ctx, "leftovers"))
	if err != nil {
		return l, failed("leftovers", err)
	}
	l.Retention = b.opts.Retention
	for i := range answers {
		parts, err := answers[i].AsIntSlice()
		if err == nil && len(parts) != 3 {
			err = fmt.Errorf("%d parts of leftovers", len(parts))
		}
		if err != nil {
			return l, failed("leftovers", err)
		}
		l.Completed = max(l.Completed, time.Duration(parts[0])*time.Microsecond)
		l.Dead = max(l.Dead, time.Duration(parts[1])*time.Microsecond)
		l.Leases += int(parts[2])
	}
	return l, nil
}
