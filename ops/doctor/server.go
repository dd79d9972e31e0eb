package doctor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/errandhq/errand/internal/reach"
	"github.com/errandhq/errand/ops"
	"github.com/errandhq/errand/ops/internal/reader"
	"github.com/errandhq/errand/ops/internal/words"
)

// onPostgres are the checks of PostgreSQL, in the order of docs/doctor.md, without those of
// everywhere.
var onPostgres = []check{
	{"version", version},
	{"writable", writable},
	{"schema", schema},
	{"drift", drift},
	{"sequences", sequences},
	{"table", table},
	{"horizon", horizon},
	{"dead-rows", deadRows},
	{"claim-cost", claimCost},
	{"autovacuum", autovacuum},
	{"stale-leases", staleLeases},
	{"retention", retained},
	{"waits", waits},
	{"clock", clock},
	{"connections", connections},
	{"pooler", pooler},
	{"listen", listen},
	{"notify-queue", notifyQueue},
	{"disk", disk},
	{"durability", durability},
	{"timeouts", timeouts},
	{"planner", planner},
	{"collation", collation},
	{"rights", rights},
}

// reach connects to the server, and finds out what other checks need to know.
func reached(ctx context.Context, d *doctor) (finding, error) {
	if err := d.Server.IdentifyInTime(ctx, reader.ReachTimeout); err != nil {
		u := reach.Check(err)
		if u == nil {
			u = &reach.Error{Problem: "the server answers with an error: " + err.Error(), Advice: reach.LookAtServer, Err: err}
		}
		return finding{ops.Fail, u.Error(), u.Advice}, nil
	}
	return finding{value: d.Server.Name + " as " + d.Server.Role}, nil
}

// oldest is the lowest major version that errand works with.
const oldest = 13

func version(_ context.Context, d *doctor) (finding, error) {
	major := d.Server.Identity.Version / 10000
	end := endOfLife(major)
	f := finding{value: fmt.Sprintf("%s, maintained until %s", d.Server.Name, end.Format("January 2006"))}
	switch {
	case major < oldest:
		f.level, f.advice = ops.Fail, fmt.Sprintf("errand needs PostgreSQL %d or newer", oldest)
	case time.Now().After(end):
		f.level, f.advice = ops.Warn, "it gets no more security fixes: upgrade the server"
	}
	return f, nil
}

// endOfLife returns when a major version gets its last minor release: five years after the first
// one, in November.
func endOfLife(major int) time.Time {
	return time.Date(2012+major, time.November, 15, 0, 0, 0, 0, time.UTC)
}

func writable(ctx context.Context, d *doctor) (finding, error) {
	if d.Server.Identity.IsStandby {
		return finding{ops.Fail, "the server is a standby, which only reads", words.AskPrimary}, nil
	}
	switch places, err := d.Server.ReadOnly(ctx); {
	case err != nil:
		return finding{}, err
	case d.Server.Identity.IsReadOnly:
		return finding{ops.Fail, reader.DescribePlaces(places), reader.AllowWrites(places)}, nil
	case len(places) > 0: // of other roles than this one
		return finding{ops.Warn, reader.DescribePlaces(places) + ", which may change jobs", reader.AllowWrites(places)}, nil
	}
	return finding{value: "yes"}, nil
}

// clock compares the server's clock with the local one, which may be off by half a round trip.
func clock(_ context.Context, d *doctor) (finding, error) {
	i := d.Server.Identity
	trip := i.Replied.Sub(i.Asked)
	return judgeClock(i.Ahead(), trip), nil
}

func connections(ctx context.Context, d *doctor) (finding, error) {
	var most, used, roleMost, roleUsed, baseMost, baseUsed int
	if err := d.Server.Row(ctx, "connections", &most, &used, &roleMost, &roleUsed, &baseMost, &baseUsed); err != nil {
		return finding{}, err
	}
	var f finding
	highest := -1.0
	for _, l := range []struct {
		of         string
		used, most int
		advice     string
	}{
		{"the server", used, most, "raise max_connections, or lower the pools of the programs"},
		{"the role " + d.Server.Role, roleUsed, roleMost, "ALTER ROLE " + d.Server.Role + " CONNECTION LIMIT, or lower the pools of the programs"},
		{"the database", baseUsed, baseMost, "ALTER DATABASE … CONNECTION LIMIT, or lower the pools of the programs"},
	} {
		if l.most < 0 {
			continue
		}
		share := float64(l.used) / float64(max(l.most, 1))
		if share > highest {
			highest = share
			f = finding{words.LevelOf(share, 0.8, 0.95), fmt.Sprintf("%d of %d connections of %s are in use", l.used, l.most, l.of), l.advice}
		}
	}
	return f, nil
}

func durability(ctx context.Context, d *doctor) (finding, error) {
	values, err := d.Server.Settings(ctx)
	if err != nil {
		return finding{}, err
	}
	if f, err := findStandbyWait(ctx, d.Server, values); err != nil || f.level != "" {
		return f, err
	}
	var off []string
	f := finding{value: "a commit is on disk before it returns"}
	for _, name := range []string{"fsync", "full_page_writes"} {
		if values[name] == "off" {
			f.level = ops.Fail
			off = append(off, name+" is off: a crash of the host may ruin the database")
		}
	}
	if values["synchronous_commit"] == "off" {
		f.level = cmp.Or(f.level, ops.Warn)
		off = append(off, "synchronous_commit is off: a crash of the server loses the last commits, and their jobs run again or never")
	}
	if len(off) > 0 {
		f.value, f.advice = strings.Join(off, "; "), "set them to on, unless the data may be lost"
	}
	return f, nil
}

// findStandbyWait returns the finding if commits wait for a synchronous standby that hangs, or will
// wait because none is connected. A role that may not see standbys learns nothing of it.
func findStandbyWait(ctx context.Context, s *reader.Server, settings map[string]string) (finding, error) {
	names, commit := settings["synchronous_standby_names"], settings["synchronous_commit"]
	if names == "" {
		return finding{}, nil
	}
	waiting, err := s.WaitingCommits(ctx)
	if err != nil {
		return finding{}, err
	}
	if len(waiting) > 0 {
		return finding{ops.Fail, fmt.Sprintf("commits wait for a synchronous standby that does not answer (%s), so claims, settling and enqueueing hang: %s", names, reader.WaitsInCommit(waiting[0])),
			words.ConnectStandby + words.LeaveCommits}, nil
	}
	if commit == "off" || commit == "local" || !s.SeesAll {
		return finding{}, nil
	}
	connected := 0
	if err := s.Row(ctx, "sync_standbys", &connected); err != nil || connected > 0 {
		return finding{}, err
	}
	return finding{ops.Fail, fmt.Sprintf("each commit waits for a synchronous standby (%s), and none is connected: claims hang", names),
		words.ConnectStandby}, nil
}

func planner(ctx context.Context, d *doctor) (finding, error) {
	values, err := d.Server.Settings(ctx)
	if err != nil {
		return finding{}, err
	}
	var off []string
	for name, value := range values {
		// The enable_partitionwise settings are off by default, and not about errand's statements.
		if strings.HasPrefix(name, "enable_") && value == "off" && !strings.HasPrefix(name, "enable_partitionwise") {
			off = append(off, name+" is off")
		}
	}
	slices.Sort(off)
	if mode := values["plan_cache_mode"]; mode != "auto" {
		off = append(off, "plan_cache_mode is "+mode)
	}
	if len(off) == 0 {
		return finding{value: "the settings are the server's defaults"}, nil
	}
	return finding{ops.Warn, strings.Join(off, ", "), "claims may read the whole table: RESET it for the role, the database and the server"}, nil
}
