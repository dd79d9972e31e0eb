package doctor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/errandhq/errand/internal/reach"
	"github.com/errandhq/errand/ops"
	"github.com/errandhq/errand/ops/internal/words"
	"github.com/errandhq/errand/queue/driver"
)

// onServed are the checks of Redis, in the order of docs/doctor.md, without those of everywhere.
var onServed = []check{
	{"servers", answering},
	{"version", servedVersion},
	{"writable", servedWritable},
	{"cluster", cluster},
	{"replicas", replicas},
	{"memory", memory},
	{"durability", servedDurability},
	{"functions", functions},
	{"latency", latency},
	{"clock", servedClock},
	{"connections", servedConnections},
	{"stale-leases", servedLeases},
	{"retention", servedRetention},
}

// answering looks for servers that do not answer.
func answering(_ context.Context, d *doctor) (finding, error) {
	if known := number(d.served.all[0].Info, "cluster_known_nodes"); len(d.served.silent) == 0 && int(known) > len(d.served.all) {
		return finding{value: fmt.Sprintf("this program knows %d of %.0f nodes, and they answer", len(d.served.all), known)}, nil
	}
	if len(d.served.silent) == 0 {
		return finding{value: "all answer"}, nil
	}
	var silent []string
	for _, s := range d.served.silent {
		why := s.Err.Error()
		if u := reach.Check(s.Err); u != nil {
			why = u.Problem
		}
		silent = append(silent, s.Addr+" ("+why+")")
	}
	return finding{ops.Fail, "servers that do not answer: " + words.Enumerate(silent),
		"look whether they run. A cluster replaces a master that is dead; calls for one that hangs wait"}, nil
}

// oldestRedis is the lowest version that errand works with; Valkey says that it is Redis 7, too.
const oldestRedis = 7

func servedVersion(_ context.Context, d *doctor) (finding, error) {
	var names []string
	for _, s := range d.served.all {
		if name := productOf(s); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	f := worstOf(d.served, d.served.all, names[0], func(s driver.ServerRecord) finding {
		major, _, _ := strings.Cut(s.Info["redis_version"], ".")
		if n, err := strconv.Atoi(major); err != nil || n >= oldestRedis {
			return finding{}
		}
		return finding{ops.Fail, productOf(s), "errand needs Redis 7 or Valkey 8, or newer"}
	})
	if f.level == "" && len(names) > 1 {
		return finding{ops.Warn, "the servers have different versions: " + strings.Join(names, ", "), "finish the upgrade of the cluster"}, nil
	}
	return f, nil
}

func servedWritable(_ context.Context, d *doctor) (finding, error) {
	switch {
	case len(d.served.masters()) > 0:
	case d.served.isCluster():
		return finding{ops.Fail, "no master of the cluster answers, and replicas only read", "see the check servers"}, nil
	default:
		return finding{ops.Fail, "the server is a replica, which only reads", "give the programs the URL of its master, " +
			d.served.all[0].Info["master_host"] + ":" + d.served.all[0].Info["master_port"]}, nil
	}
	return worstOf(d.served, d.served.all, "yes", func(s driver.ServerRecord) finding {
		least, hasLeast := s.Info["min_slaves_good_slaves"]
		wants := number(s.Config, "min-replicas-to-write")
		switch {
		case s.Info["loading"] == "1":
			return finding{ops.Fail, "the server is loading its data from disk", "wait, and see its log"}
		case hasLeast && !isReplica(s) && wants > 0 && number(s.Info, "min_slaves_good_slaves") < wants:
			return finding{ops.Fail, fmt.Sprintf("the server takes no writes: it has %s good replicas, and min-replicas-to-write is %.0f", least, wants),
				"start its replicas again, or add one"}
		case s.Info["aof_last_write_status"] == "err":
			return finding{ops.Fail, "the server takes no writes: it cannot write its append-only file", "look at the disk's free space, and at the server's log"}
		case s.Info["rdb_last_bgsave_status"] == "err":
			return finding{ops.Fail, "the last snapshot has failed, and the server may refuse writes", "look at the disk's free space, and at the server's log"}
		}
		return finding{}
	}), nil
}

// slots is how many slots a cluster has.
const slots = 16384

// cluster looks whether each server sees that all slots are served.
func cluster(_ context.Context, d *doctor) (finding, error) {
	if !d.served.isCluster() {
		return finding{level: ops.Skipped, value: "the server is no cluster"}, nil
	}
	if f, ok := findDenied(d.served, "+cluster|info"); ok {
		return f, nil
	}
	healthy := fmt.Sprintf("all slots are served, by %s", words.Count(int(number(d.served.all[0].Info, "cluster_size")), "master"))
	return worstOf(d.served, d.served.all, healthy, func(s driver.ServerRecord) finding {
		switch ok := number(s.Info, "cluster_slots_ok"); {
		case ok < slots:
			return finding{ops.Fail, fmt.Sprintf("%.0f of %d slots are not served, and the jobs in them cannot be reached", slots-ok, slots),
				"redis-cli --cluster check ADDRESS names them. Start the masters that had them, or fail over to their replicas"}
		case s.Info["cluster_state"] != "ok":
			return finding{ops.Fail, "its cluster_state is " + s.Info["cluster_state"], "the server does not reach most masters: look at the network between them"}
		}
		return finding{}
	}), nil
}

// replicas looks for masters of a cluster that nothing can replace, and for replicas that lag.
func replicas(_ context.Context, d *doctor) (finding, error) {
	n := 0
	f := worstOf(d.served, d.served.all, "", func(s driver.ServerRecord) finding {
		n += int(number(s.Info, "connected_slaves"))
		switch {
		case isReplica(s) && s.Info["master_link_status"] != "up":
			return finding{ops.Warn, "the replica has no connection to its master", "it cannot take the place of its master: look at both servers' logs"}
		case isReplica(s):
		case d.served.isCluster() && number(s.Info, "connected_slaves") == 0:
			return finding{ops.Warn, "the master has no replica: if it dies, its jobs cannot be reached", "add a replica: redis-cli --cluster add-node … --cluster-slave"}
		case d.served.isCluster() && s.Config["min-replicas-to-write"] == "0":
			return finding{ops.Warn, "min-replicas-to-write is 0: a master that is cut off takes jobs, and loses them when its replica takes over",
				"CONFIG SET min-replicas-to-write 1, and in the configuration file of each server"}
		}
		return finding{}
	})
	if f.level != "" {
		return f, nil
	}
	f.value = "connected: " + words.Count(n, "replica")
	if denied, isDenied := findDenied(d.served, mayReadConfig); isDenied && d.served.isCluster() {
		f.value += "; min-replicas-to-write is not known: " + denied.value
	}
	return f, nil
}

// memory looks whether the servers have room for jobs, and delete none.
func memory(_ context.Context, d *doctor) (finding, error) {
	highest := ""
	most := -1.0
	f := worstOf(d.served, d.served.all, "", func(s driver.ServerRecord) finding {
		used, limit, policy := number(s.Info, "used_memory"), number(s.Info, "maxmemory"), s.Info["maxmemory_policy"]
		const keep = "CONFIG SET maxmemory-policy noeviction, and in the configuration file"
		evicts := policy != "noeviction" && policy != ""
		switch {
		case limit == 0 && evicts: // nothing is deleted without a limit
			return finding{ops.Warn, fmt.Sprintf("maxmemory is not set, and %s are in use: the server grows until the host ends it; with a limit it may delete jobs, because maxmemory-policy is %s", megabytes(used), policy),
				keep + ". Then CONFIG SET maxmemory, below what the host has"}
		case limit == 0:
			return finding{ops.Warn, fmt.Sprintf("maxmemory is not set, and %s are in use: the server grows until the host ends it", megabytes(used)),
				"CONFIG SET maxmemory, below what the host has, and in the configuration file"}
		case evicts:
			return finding{ops.Fail, "maxmemory-policy is " + policy + ": the server may delete jobs", keep}
		}
		share := used / limit
		text := fmt.Sprintf("%.0f %% of maxmemory, %s, are in use", 100*share, megabytes(limit))
		if share > most {
			most, highest = share, text
		}
		return finding{words.LevelOf(share, 0.8, 0.95), text,
			"at maxmemory Enqueue is refused: raise maxmemory, shorten Retention.Completed, or start workers if a backlog grows"}
	})
	if f.level == "" {
		f.value = highest
	}
	return f, nil
}

func megabytes(bytes float64) string { return fmt.Sprintf("%.0f MB", bytes/(1<<20)) }

// servedDurability looks whether jobs are on disk.
func servedDurability(_ context.Context, d *doctor) (finding, error) {
	healthy := "the append-only file is on, appendfsync is " + d.served.all[0].Config["appendfsync"]
	if f, isDenied := findDenied(d.served, mayReadConfig); isDenied {
		healthy = "the append-only file is on; appendfsync is not known: " + f.value
	}
	return worstOf(d.served, d.served.all, healthy, func(s driver.ServerRecord) finding {
		switch {
		case s.Info["aof_enabled"] != "1":
			return finding{ops.Warn, "appendonly is no: jobs since the last snapshot are lost when the server ends", "CONFIG SET appendonly yes, and in the configuration file"}
		case s.Config["appendfsync"] == "no":
			return finding{ops.Warn, "appendfsync is no: a power cut loses the jobs of half a minute", "CONFIG SET appendfsync everysec, and in the configuration file"}
		}
		return finding{}
	}), nil
}

// functions looks whether the masters have errand's functions, in the version of this program.
func functions(_ context.Context, d *doctor) (finding, error) {
	if f, ok := findDenied(d.served, "+function|list"); ok {
		return f, nil
	}
	return worstOf(d.served, d.served.masters(), "errand's functions are loaded, in this program's version", func(s driver.ServerRecord) finding {
		if s.HasCode {
			return finding{}
		}
		return finding{ops.Warn, "errand's functions are not loaded in this program's version",
			"the next call of a program of this version loads them. If it cannot, its error says why: maxmemory, or a right"}
	}), nil
}

// latency looks at how long the servers take to answer.
func latency(_ context.Context, d *doctor) (finding, error) {
	longest := time.Duration(0)
	for _, s := range d.served.all {
		longest = max(longest, s.Took)
	}
	return worstOf(d.served, d.served.all, fmt.Sprintf("an answer takes %v at most", longest.Round(10*time.Microsecond)), func(s driver.ServerRecord) finding {
		return finding{words.LevelOf(s.Took, 100*time.Millisecond, time.Second), fmt.Sprintf("an answer takes %v", s.Took.Round(10*time.Microsecond)),
			"the server is busy (SLOWLOG GET), the host is (swap, other processes), or the network is slow"}
	}), nil
}

// servedClock compares the servers' clocks with the local one.
func servedClock(_ context.Context, d *doctor) (finding, error) {
	farthest := driver.ServerRecord{}
	for _, s := range d.served.all {
		if s.Ahead.Abs() >= farthest.Ahead.Abs() {
			farthest = s
		}
	}
	return worstOf(d.served, d.served.all, judgeClock(farthest.Ahead, farthest.Took).value, func(s driver.ServerRecord) finding {
		return judgeClock(s.Ahead, s.Took)
	}), nil
}

func servedConnections(_ context.Context, d *doctor) (finding, error) {
	busiest, most := "", -1.0
	f := worstOf(d.served, d.served.all, "", func(s driver.ServerRecord) finding {
		used, limit := number(s.Info, "connected_clients"), number(s.Info, "maxclients")
		if limit == 0 {
			return finding{}
		}
		text := fmt.Sprintf("%.0f of %.0f connections are in use", used, limit)
		if used/limit > most {
			busiest, most = text, used/limit
		}
		return finding{words.LevelOf(used/limit, 0.8, 0.95), text, "raise maxclients, or end programs that do not close their clients (CLIENT LIST)"}
	})
	if f.level == "" {
		f.value = cmp.Or(busiest, "the server does not tell")
	}
	return f, nil
}

func servedLeases(ctx context.Context, d *doctor) (finding, error) {
	l, err := d.served.backend.Leftovers(ctx)
	if err != nil {
		return finding{}, err
	}
	if l.Leases == 0 {
		return finding{value: "none"}, nil
	}
	return finding{words.LevelOf(l.Leases, 1, 1000), words.Count(l.Leases, "running job") + ": the leases expired long ago, and no worker has reclaimed them", startReclaimer}, nil
}

func servedRetention(ctx context.Context, d *doctor) (finding, error) {
	l, err := d.served.backend.Leftovers(ctx)
	if err != nil {
		return finding{}, err
	}
	return judgeRetention(l.Retention, l.Completed, l.Dead), nil
}
