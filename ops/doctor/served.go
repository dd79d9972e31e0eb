package doctor

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/errandhq/errand/internal/reach"
	"github.com/errandhq/errand/ops"
	"github.com/errandhq/errand/ops/internal/words"
	"github.com/errandhq/errand/queue/driver"
)

// served is the servers of Redis as Examine asks them. It is for one call of Examine.
type served struct {
	backend driver.Served
	all     []driver.ServerRecord // those that answer
	silent  []driver.ServerRecord // the others
}

// reachServed asks all servers. It fails if none answers.
func reachServed(ctx context.Context, d *doctor) (finding, error) {
	all, err := d.served.backend.Servers(ctx)
	if err != nil {
		return finding{}, err
	}
	d.served.all, d.served.silent = nil, nil
	for _, s := range all {
		if s.Err != nil {
			d.served.silent = append(d.served.silent, s)
		} else {
			d.served.all = append(d.served.all, s)
		}
	}
	if len(d.served.all) > 0 {
		return finding{value: fmt.Sprintf("%s, %s", d.served.name(), words.Count(len(d.served.all), "server"))}, nil
	}
	problem, advice := "the backend knows no server", reach.LookAtServer
	if len(all) > 0 {
		problem, advice = all[0].Err.Error(), reach.LookAtServer
		if u := reach.Check(all[0].Err); u != nil {
			problem, advice = u.Problem, u.Advice
		}
	}
	return finding{ops.Fail, "the servers cannot be reached: " + problem, advice}, nil
}

// Name returns the name of the servers, such as "Redis 7.0.15".
func (s *served) name() string {
	if len(s.all) == 0 {
		return ""
	}
	return productOf(s.all[0])
}

func productOf(s driver.ServerRecord) string {
	if v := s.Info["valkey_version"]; v != "" {
		return "Valkey " + v
	}
	return "Redis " + s.Info["redis_version"]
}

// masters returns the servers that are no replicas.
func (s *served) masters() []driver.ServerRecord {
	return slices.DeleteFunc(slices.Clone(s.all), isReplica)
}

func isReplica(s driver.ServerRecord) bool { return s.Info["role"] == "slave" }

func (s *served) isCluster() bool { return s.all[0].Info["cluster_enabled"] == "1" }

// number returns a field as a number, or 0.
func number(fields map[string]string, name string) float64 {
	n, _ := strconv.ParseFloat(fields[name], 64) // a field that is not there is 0
	return n
}

// worstOf returns the worst finding that judge returns of some servers. If there are several
// servers, it says of which it is, and how many more are as bad. It is healthy if all are OK.
func worstOf(s *served, some []driver.ServerRecord, healthy string, judge func(driver.ServerRecord) finding) finding {
	worst := finding{value: healthy}
	var bad []string // the addresses of those as bad as the worst
	for _, one := range some {
		f := judge(one)
		switch {
		case f.level == ops.Fail && worst.level != ops.Fail || f.level == ops.Warn && worst.level == "":
			worst, bad = f, []string{one.Addr}
		case f.level == worst.level && worst.level != "":
			bad = append(bad, one.Addr)
		}
	}
	switch {
	case len(s.all) == 1 || len(bad) == 0:
	case len(bad) == 1:
		worst.value = bad[0] + ": " + worst.value
	default:
		worst.value = fmt.Sprintf("%s, and %d more: %s", bad[0], len(bad)-1, worst.value)
	}
	return worst
}

// mayReadConfig is the right to read settings that no other command tells.
const mayReadConfig = "+config|get"

// findDenied returns the finding of a check that the rights of the user do not allow.
func findDenied(s *served, right string) (finding, bool) {
	for _, one := range s.all {
		if slices.Contains(one.Denied, right) {
			return finding{ops.Skipped, "a right is missing: " + right, "ask as a user that has it (docs/redis.md)"}, true
		}
	}
	return finding{}, false
}
