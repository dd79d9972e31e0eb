package data

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/errandhq/errand/lab/chaos/internal/child"
	"github.com/errandhq/errand/lab/chaos/internal/harness"
	"github.com/errandhq/errand/lab/chaos/internal/ledger"
	"github.com/errandhq/errand/lab/chaos/internal/scenario"
)

var plans = scenario.Scenario{
	Number: 5,
	Name:   "plans",
	What:   "claims from a million rows with plans that are forced, nested loops and others, and stale statistics",
	Run:    forcePlans,
}

// limitsOfClaims are the limits of each claimer. A run has each of them equally often.
var limitsOfClaims = []int{1, 7, 100, 1000}

// forced are the planner's settings for the session of each claimer: name, value, name, value.
var forced = map[string][]string{
	"free":        {},
	"nested":      {"enable_hashjoin", "off", "enable_mergejoin", "off"},
	"bare-nested": {"enable_hashjoin", "off", "enable_mergejoin", "off", "enable_material", "off", "enable_bitmapscan", "off", "enable_tidscan", "off"},
	"hash":        {"enable_nestloop", "off", "enable_mergejoin", "off"},
	"merge":       {"enable_nestloop", "off", "enable_hashjoin", "off"},
	"no-joins":    {"enable_nestloop", "off", "enable_hashjoin", "off", "enable_mergejoin", "off"},
	"no-seqscan":  {"enable_seqscan", "off"},
	"no-index":    {"enable_indexscan", "off", "enable_indexonlyscan", "off"},
	"no-bitmap":   {"enable_bitmapscan", "off"},
	"no-tidscan":  {"enable_tidscan", "off"},
	"seqscan":     {"enable_indexscan", "off", "enable_indexonlyscan", "off", "enable_bitmapscan", "off", "enable_tidscan", "off"},
	"no-sort":     {"enable_sort", "off", "enable_incremental_sort", "off"},
	"generic":     {"plan_cache_mode", "force_generic_plan"},
	"custom":      {"plan_cache_mode", "force_custom_plan"},
	"jit":         {"jit", "on", "jit_above_cost", "0"},
	"generic-nested": {
		"plan_cache_mode", "force_generic_plan", "enable_hashjoin", "off", "enable_mergejoin", "off", "enable_material", "off", "from_collapse_limit", "1",
	},
}

func forcePlans(ctx context.Context, h *harness.Harness) error {
	jobs := harness.Size(h, 1_000_000, 100_000)
	if err := h.Exec(ctx, `ALTER TABLE errand.jobs SET (autovacuum_enabled = off)`, `ANALYZE errand.jobs`); err != nil {
		return err
	}
	// The statistics are of an empty table in the first round, and of one without pending jobs in
	// the second.
	for round, n := range harness.Size(h, []int{jobs, jobs / 2}, []int{jobs}) {
		begun := time.Now()
		if err := fill(ctx, h, round*jobs, n); err != nil {
			return err
		}
		h.Logf("%d jobs written in %.1f s", n, time.Since(begun).Seconds())
		if err := claimForced(ctx, h, round+1); err != nil {
			return err
		}
		if err := h.Exec(ctx, `ANALYZE errand.jobs`); err != nil {
			return err
		}
	}
	f, book, err := h.Audit(ctx)
	if err != nil {
		return err
	}
	h.Row.Check(f.Dup == 0, "jobs claimed again while their leases last: 0", "%d", f.Dup)
	h.Row.Note("sessions with %d kinds of plans forced; the statistics are of an empty table%s", len(forced), harness.Size(h, ", and then of one with nothing pending", ""))
	return checkClaims(ctx, h, book.Notes)
}

// fill writes n jobs, numbered from first on, in one statement that is not the system's.
func fill(ctx context.Context, h *harness.Harness, first, n int) error {
	const insert = `INSERT INTO errand.jobs (kind, payload) SELECT 'chaos.plain', jsonb_build_object('number', i) FROM generate_series(%d, %d) AS i`
	if err := h.Exec(ctx, fmt.Sprintf(insert, first, first+n-1)); err != nil {
		return err
	}
	numbers := make([]int, n)
	for i := range numbers {
		numbers[i] = first + i
	}
	return h.RecordAcks(numbers...)
}

// claimForced lets a claimer with each of the settings claim, all at once. Then other claimers
// claim the rest.
func claimForced(ctx context.Context, h *harness.Harness, round int) error {
	limits := slices.Repeat(limitsOfClaims, harness.Size(h, 3, 1))
	var claimers []*child.Process
	for mode, settings := range forced {
		name := fmt.Sprintf("%s.%d", mode, round)
		p, err := h.Start(child.Spec{
			Part: "claim", Name: name, Claim: child.Claim{Limits: limits}, DSN: h.DSN(append(settings, "application_name", name)...),
		})
		if err != nil {
			return err
		}
		claimers = append(claimers, p)
	}
	if err := runTogether(ctx, h, claimers); err != nil {
		return err
	}
	var rest []*child.Process
	for i := range 2 {
		p, err := h.Start(child.Spec{Part: "claim", Name: fmt.Sprintf("rest%d.%d", i+1, round), Claim: child.Claim{Limits: limitsOfClaims, Rest: true}})
		if err != nil {
			return err
		}
		rest = append(rest, p)
	}
	return runTogether(ctx, h, rest)
}

// runTogether lets processes begin at once, and waits until all have ended.
func runTogether(ctx context.Context, h *harness.Harness, processes []*child.Process) error {
	for _, p := range processes {
		if err := p.Go(); err != nil {
			return err
		}
	}
	return await(ctx, h, processes)
}

// await waits until processes that end by themselves have ended.
func await(ctx context.Context, h *harness.Harness, processes []*child.Process) error {
	for _, p := range processes {
		err := h.WaitUntil(ctx, 30*time.Minute, func() (bool, error) {
			select {
			case <-p.Ended():
				return true, nil
			default:
				return false, nil
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// takenSQL counts the jobs that each call claimed: they keep the call's name.
const takenSQL = `SELECT locked_by, count(*), max(attempts) FROM errand.jobs GROUP BY locked_by`

// checkClaims compares the limits of the calls with what they returned, and with what they claimed
// as the table says.
func checkClaims(ctx context.Context, h *harness.Harness, notes []ledger.Entry) error {
	taken, most, err := claimsInTable(ctx, h)
	if err != nil {
		return err
	}
	var over, untold, lost []string
	full := make(map[string]bool) // settings and limit
	calls, largest := 0, 0
	for _, n := range notes {
		if n.Text == child.Lost {
			lost = append(lost, strconv.Itoa(n.Number))
			continue
		}
		limit, returned := n.Number, n.Attempt
		calls++
		largest = max(largest, returned)
		if max(returned, taken[n.Text]) > limit {
			over = append(over, fmt.Sprintf("%s took %d and returned %d", n.Text, taken[n.Text], returned))
		}
		if returned != taken[n.Text] {
			untold = append(untold, fmt.Sprintf("%s took %d and returned %d", n.Text, taken[n.Text], returned))
		}
		delete(taken, n.Text)
		if mode, _, _ := strings.Cut(n.Text, "."); returned == limit {
			full[fmt.Sprint(mode, " ", limit)] = true
		}
	}
	h.Row.Check(len(over) == 0, "claims of more than their limit: 0", "%s of %d; the largest was of %d", harness.FirstFew(over), calls, largest)
	h.Row.Check(len(untold) == 0 && len(taken) == 0, "claims that took others than they returned: 0", "%s; %d by nobody", harness.FirstFew(untold), len(taken))
	h.Row.Check(len(lost) == 0 && most == 1, "jobs that another had meanwhile: 0", "%s; %d attempts at most", harness.FirstFew(lost), most)
	reached := 0
	for mode := range forced {
		for _, limit := range limitsOfClaims {
			if full[fmt.Sprint(mode, " ", limit)] {
				reached++
			}
		}
	}
	want := len(forced) * len(limitsOfClaims)
	h.Row.Check(reached == want, "settings and limits with a claim that was filled: all", "%d of %d", reached, want)
	return nil
}

// claimsInTable counts the jobs by the call that claimed them. It also returns the most attempts of
// a job.
func claimsInTable(ctx context.Context, h *harness.Harness) (taken map[string]int, most int, err error) {
	conn, err := pgx.Connect(ctx, h.DSN())
	if err != nil {
		return nil, 0, err
	}
	defer conn.Close(ctx)
	taken = make(map[string]int)
	var by string
	var n, attempts int
	rows, _ := conn.Query(ctx, takenSQL) // ForEachRow returns the error, too
	_, err = pgx.ForEachRow(rows, []any{&by, &n, &attempts}, func() error {
		taken[by] = n
		most = max(most, attempts)
		return nil
	})
	return taken, most, err
}
