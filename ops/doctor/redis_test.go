package doctor

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/errandhq/errand/ops"
	"github.com/errandhq/errand/queue/driver"
)

// node is a server of Redis with these fields of INFO.
func node(addr string, info ...string) driver.ServerRecord {
	s := driver.ServerRecord{Addr: addr, Info: make(map[string]string)}
	for _, field := range info {
		name, value, _ := strings.Cut(field, "=")
		s.Info[name] = value
	}
	return s
}

// TestServedFaults: findings about nodes of which no test makes a cluster.
func TestServedFaults(t *testing.T) {
	t.Parallel()
	silent := driver.ServerRecord{Addr: "b", Err: errors.New("no answer")}
	for _, c := range []struct {
		name   string
		look   func(context.Context, *doctor) (finding, error)
		served served
		says   string // in the value or the advice
	}{
		{"only a replica of a cluster answers", servedWritable,
			served{all: []driver.ServerRecord{node("a", "role=slave", "cluster_enabled=1", "master_host=b")}, silent: []driver.ServerRecord{silent}}, "no master of the cluster answers"},
		{"a replica", servedWritable, served{all: []driver.ServerRecord{node("a", "role=slave", "master_host=b", "master_port=1")}}, "the URL of its master, b:1"},
		{"the second node is old", servedVersion,
			served{all: []driver.ServerRecord{node("a", "redis_version=7.2.0"), node("b", "redis_version=6.2.0")}}, "b: Redis 6.2.0"},
	} {
		f, err := c.look(t.Context(), &doctor{served: &c.served})
		if err != nil || f.level != ops.Fail || !strings.Contains(f.value+" "+f.advice, c.says) {
			t.Errorf("%s: got %+v, error %v, want %q", c.name, f, err, c.says)
		}
	}
}
