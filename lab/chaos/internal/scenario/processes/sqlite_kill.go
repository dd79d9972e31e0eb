package processes

import (
	"context"
	"fmt"
	"time"

	"github.com/errandhq/errand/lab/chaos/internal/child"
	"github.com/errandhq/errand/lab/chaos/internal/filelock"
	"github.com/errandhq/errand/lab/chaos/internal/harness"
	"github.com/errandhq/errand/lab/chaos/internal/peer"
	"github.com/errandhq/errand/lab/chaos/internal/scenario"
	"github.com/errandhq/errand/lab/chaos/internal/seed"
)

var sqlite = scenario.Scenario{
	Number: 23,
	Name:   "sqlite",
	What:   "8 worker processes on one SQLite file, and one that enqueues, are killed with SIGKILL and replaced, one at a time or all at once",
	System: "sqlite",
	Run:    killAmongMany,
}

// workersOnFile is how many workers use the file. The enqueuer uses it, too, and is the last
// victim.
const workersOnFile = 8

func killAmongMany(ctx context.Context, h *harness.Harness) error {
	c, err := crowdFile(h)
	if err != nil {
		return err
	}
	if err := h.Sleep(ctx, harness.Size(h, 5*time.Second, time.Second)); err != nil {
		return err
	}
	kills := harness.Size(h, 200, 10)
	least, most := harness.Size(h, 300*time.Millisecond, 100*time.Millisecond), harness.Size(h, 900*time.Millisecond, 400*time.Millisecond)
	if err := c.killInTurn(ctx, seed.Strikes(h.Source("kills"), kills, workersOnFile+1, least, most)); err != nil {
		return err
	}
	h.Logf("%d kills done", kills)
	if err := h.Sleep(ctx, harness.Size(h, 10*time.Second, 2*time.Second)); err != nil {
		return err
	}
	f, _, err := scenario.Finish(ctx, h, c.crew, c.enqueuer)
	if err != nil {
		return err
	}
	h.CheckDuplicates(f)
	checkRerun(h, f, leaseOfKilled)
	c.note()
	c.checkFile(ctx)
	return nil
}

// crowd is all processes that use the file.
type crowd struct {
	harness   *harness.Harness
	file      peer.File
	crew      *harness.Crew
	enqueuer  *child.Process
	enqueuers int // how many were started

	// How many of the killed processes had the write lock, were checkpointing the log into the
	// file, or were the enqueuer; and how often all were killed.
	writing, copying, enqueuing, alone int

	looks int
	found []string // results of quick_check other than "ok"
}

func crowdFile(h *harness.Harness) (c *crowd, err error) {
	file, ok := h.Peer.(peer.File)
	if !ok {
		return nil, fmt.Errorf("%s is not in a file", h.System.Name)
	}
	c = &crowd{harness: h, file: file}
	c.crew, err = h.Crew(workersOnFile, child.Work{
		Worker: peer.Worker{Concurrency: 4, Lease: leaseOfKilled},
		Least:  50 * time.Millisecond, // 32 handlers run some 210 jobs a second
		Most:   250 * time.Millisecond,
	})
	if err != nil {
		return nil, err
	}
	return c, c.replaceEnqueuer()
}

// replaceEnqueuer starts another enqueuer, with its own range of numbers.
func (c *crowd) replaceEnqueuer() (err error) {
	const each = 10_000_000
	c.enqueuers++
	c.enqueuer, err = c.harness.Enqueuer(fmt.Sprintf("enqueuer.%d", c.enqueuers), child.Enqueue{First: c.enqueuers * each, Batch: 10, Ahead: 300})
	return err
}

func (c *crowd) at(victim int) *child.Process {
	if victim == workersOnFile {
		return c.enqueuer
	}
	return c.crew.At(victim)
}

func (c *crowd) replace(victim int) error {
	if victim == workersOnFile {
		return c.replaceEnqueuer()
	}
	return c.crew.Replace(victim)
}

// killInTurn kills one process after the other, and now and then all at once.
func (c *crowd) killInTurn(ctx context.Context, strikes []seed.Strike) error {
	turn := harness.Size(c.harness, 20, 5)
	for i, strike := range strikes {
		if err := c.harness.Sleep(ctx, strike.After); err != nil {
			return err
		}
		kill := c.killOne
		if (i+1)%turn == 0 {
			kill = c.killAll
		}
		if err := kill(ctx, strike); err != nil {
			return err
		}
	}
	return nil
}

// killOne kills one process, and replaces it.
func (c *crowd) killOne(ctx context.Context, strike seed.Strike) error {
	victim, err := c.choose(strike)
	if err != nil {
		return err
	}
	if err := c.kill(ctx, c.at(victim)); err != nil {
		return err
	}
	if err := c.replace(victim); err != nil {
		return err
	}
	if strike.Draw%10 < 3 {
		c.readTable(ctx)
	}
	return nil
}

// choose waits for a moment that the draw decides: until the victim writes, until some process
// checkpoints the log, which is then the victim, or for nothing. It waits a second at most, because
// the kernel may not tell.
func (c *crowd) choose(strike seed.Strike) (victim int, err error) {
	var lock int
	switch strike.Draw % 4 {
	case 0, 1:
		lock = filelock.SQLiteWrite
	case 2:
		lock = filelock.SQLiteCheckpoint
	default:
		return strike.Victim, nil
	}
	for deadline := time.Now().Add(time.Second); time.Now().Before(deadline); time.Sleep(100 * time.Microsecond) { // shorter than a transaction
		pid, err := c.holder(lock)
		if err != nil {
			return 0, err
		}
		for victim := range workersOnFile + 1 {
			if c.at(victim).PID() == pid && (victim == strike.Victim || lock == filelock.SQLiteCheckpoint) {
				return victim, nil
			}
		}
	}
	return strike.Victim, nil
}

// killAll kills every process that has the file open. The next process must recover the file from
// itself and its log, without the shared memory of the dead ones.
func (c *crowd) killAll(ctx context.Context, _ seed.Strike) error {
	var all []*child.Process
	for victim := range workersOnFile + 1 {
		all = append(all, c.at(victim))
	}
	c.alone++
	if err := c.kill(ctx, all...); err != nil {
		return err
	}
	c.readTable(ctx)
	for victim := range all {
		if err := c.replace(victim); err != nil {
			return err
		}
	}
	return nil
}

// kill kills processes and counts what they were doing.
func (c *crowd) kill(ctx context.Context, victims ...*child.Process) error {
	writing, err := c.holder(filelock.SQLiteWrite)
	if err != nil {
		return err
	}
	copying, err := c.holder(filelock.SQLiteCheckpoint)
	if err != nil {
		return err
	}
	for _, p := range victims {
		if p.PID() == writing {
			c.writing++
		}
		if p.PID() == copying {
			c.copying++
		}
		if p == c.enqueuer {
			c.enqueuing++
		}
	}
	return c.harness.Kill(ctx, victims...)
}

func (c *crowd) holder(lock int) (pid int, err error) {
	return filelock.Holder(c.harness.File+"-shm", lock)
}

// readTable checks the file again and again while the scenario runs.
func (c *crowd) readTable(ctx context.Context) {
	c.looks++
	if found := c.check(ctx, false); found != "ok" {
		c.found = append(c.found, found)
	}
}

// check returns the result of a check of the file, or its error: a damaged file may be impossible
// to check.
func (c *crowd) check(ctx context.Context, thorough bool) string {
	found, err := c.file.Check(ctx, thorough)
	if err != nil {
		return err.Error()
	}
	return found
}

func (c *crowd) note() {
	c.harness.Row.Note("leases of %v; %d processes were killed, of which %d enqueued, %d had the write lock and %d the checkpoint's; %d times nobody was left",
		leaseOfKilled, c.harness.Row.Faults, c.enqueuing, c.writing, c.copying, c.alone)
}

// checkFile demands that the file is intact now and was intact in all earlier checks.
func (c *crowd) checkFile(ctx context.Context) {
	c.harness.Row.Check(c.looks > 0 && len(c.found) == 0, "PRAGMA quick_check meanwhile: ok", "%d of %d; not ok %s", c.looks-len(c.found), c.looks, harness.FirstFew(c.found))
	found := c.check(ctx, true)
	c.harness.Row.Check(found == "ok", "PRAGMA integrity_check in the end: ok", "%s", found)
}
