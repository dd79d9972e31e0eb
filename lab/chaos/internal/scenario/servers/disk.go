package servers

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/errandhq/errand/lab/chaos/internal/audit"
	"github.com/errandhq/errand/lab/chaos/internal/child"
	"github.com/errandhq/errand/lab/chaos/internal/harness"
	"github.com/errandhq/errand/lab/chaos/internal/ledger"
	"github.com/errandhq/errand/lab/chaos/internal/scenario"
)

var disk = scenario.Scenario{
	Number: 20,
	Name:   "disk",
	What:   "the server's disk is full under load, first for tables and then for WAL, at which the server ends",
	Run:    fillDisk,
	Disk:   384 << 20,
	// WAL may take a small part of the disk.
	Settings: map[string]string{"max_wal_size": "96MB", "min_wal_size": "32MB"},
}

func fillDisk(ctx context.Context, h *harness.Harness) error {
	const lease, within = 3 * time.Second, 30 * time.Second
	crew, err := scenario.Workers(h, lease)
	if err != nil {
		return err
	}
	// It waits for no worker: it must try while the disk is full and nothing is settled.
	enqueuer, err := h.Enqueuer("enqueuer", child.Enqueue{Batch: 20, Rate: 200})
	if err != nil {
		return err
	}
	if err := h.Sleep(ctx, harness.Size(h, 10*time.Second, 2500*time.Millisecond)); err != nil {
		return err
	}
	full, since, err := keepDiskFull(ctx, h, harness.Size(h, time.Minute, 4*time.Second))
	if err != nil {
		return err
	}
	if err := restartUntilUp(ctx, h, within); err != nil {
		return err
	}
	h.Logf("the server can be connected to %.1f s after there was space again", time.Since(full.Until).Seconds())
	// A worker pauses for up to three seconds after an outage. Each is to find jobs after that.
	if err := h.Sleep(ctx, harness.Size(h, within, 6*time.Second)); err != nil {
		return err
	}
	f, book, err := scenario.Finish(ctx, h, crew, enqueuer)
	if err != nil {
		return err
	}
	h.CheckDuplicates(f)
	checkResumed(h, book.Starts, crew.Names(), []audit.Fault{full}, within)
	recovery := time.Duration(h.Row.RecoveryMS) * time.Millisecond
	h.Row.CheckTime(recovery <= within, "recovery ≤ 30 s", "%.1f s after there was space again", recovery.Seconds())
	checkRefusals(h, book.Notes, full)
	h.Row.Note("leases of %v; %.0f jobs/s while it was full", lease, audit.Rate(book.Effects, since, full.Until))
	return noteLog(h)
}

// keepDiskFull fills the disk, which takes a slow machine seconds, and from then on again and
// again. In the second half of that time it also makes the server need more WAL. Then it frees the
// space.
func keepDiskFull(ctx context.Context, h *harness.Harness, lasting time.Duration) (f audit.Fault, since time.Time, err error) {
	ballast, err := h.Server.Ballast()
	if err != nil {
		return f, since, err
	}
	f = audit.Fault{What: "disk full", At: time.Now()}
	for err == nil && (since.IsZero() || time.Since(since) < lasting) {
		if _, err = ballast.Grow(); err != nil {
			break
		}
		if since.IsZero() {
			since = time.Now()
		}
		if time.Since(since) > lasting/2 && !h.Server.HasEnded() {
			_ = h.Exec(ctx, "SELECT pg_switch_wal()") // it may end the server
		}
		err = h.Sleep(ctx, 50*time.Millisecond)
	}
	if released := ballast.Release(); err == nil {
		err = released
	}
	f.Until = time.Now()
	h.RecordFault(f)
	return f, since, err
}

// restartUntilUp starts the server until it stays up, as a supervisor does.
func restartUntilUp(ctx context.Context, h *harness.Harness, within time.Duration) error {
	return h.WaitUntil(ctx, within, func() (bool, error) {
		if h.Server.HasEnded() {
			return h.Server.Start(ctx) == nil, nil
		}
		err := h.Server.Ready(ctx)
		if h.Server.HasEnded() {
			return false, nil
		}
		return err == nil, err
	})
}

var (
	namesDisk       = regexp.MustCompile(`SQLSTATE 53100|No space left on device`)
	namesConnection = regexp.MustCompile(`SQLSTATE (57P0[123]|08...)|failed to connect|connection re(fused|set)|broken pipe|unexpected EOF|bad connection|conn closed`)
)

// checkRefusals demands that the enqueuer was told why its calls failed.
func checkRefusals(h *harness.Harness, notes []ledger.Entry, full audit.Fault) {
	var unclear []string
	all, named := 0, 0
	for _, n := range notes {
		told, refused := strings.CutPrefix(n.Text, child.Refused)
		if !refused || n.At.Before(full.At) {
			continue
		}
		all++
		switch {
		case namesDisk.MatchString(told):
			named++
		case !namesConnection.MatchString(told):
			unclear = append(unclear, told)
		}
	}
	h.Row.Check(named > 0 && len(unclear) == 0, "errors that name neither the disk nor the connection: 0",
		"%s of %d; %d name the disk", harness.FirstFew(unclear), all, named)
}

// noteLog notes what the server logged about it.
func noteLog(h *harness.Harness) error {
	var said []string
	for _, text := range []string{"No space left on device", "PANIC: "} {
		n, err := h.Server.CountInLog(text)
		if err != nil {
			return err
		}
		said = append(said, fmt.Sprintf("%q %d times", strings.TrimSuffix(text, ": "), n))
	}
	h.Row.Note("the server said %s", strings.Join(said, " and "))
	return nil
}
