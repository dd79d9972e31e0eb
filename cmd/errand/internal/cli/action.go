package cli

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/user"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/errandhq/errand/backend/dburl"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// Audited adds the flag --reason to a command whose action is written to the audit log.
func (a *App) Audited(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().StringVar(&a.Reason, "reason", "", "why, for the audit log")
	return cmd
}

// Act runs an action and appends its entry to the audit log, in one transaction. The action fills
// in the Count of the entry.
func (a *App) Act(ctx context.Context, d *dburl.Database, entry queue.AuditEntry, action func(db queue.DB, entry *queue.AuditEntry) error) error {
	if d.DB == nil {
		return a.actAlone(ctx, d, entry, action)
	}
	auditor, err := Need[driver.Auditor](d)
	if err != nil {
		return err
	}
	entry.Actor, entry.Reason = Actor(), a.Reason
	tx, end, err := a.begin(ctx, d)
	if err != nil {
		return err
	}
	defer end()
	a.acts++
	if err := action(tx, &entry); err != nil {
		return err
	}
	if err := auditor.Audit(ctx, tx, entry); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("%w: %w", queue.ErrUnknown, err)
	}
	a.commits++
	return nil
}

// actAlone runs an action where there are no transactions, and then appends its entry, if there is
// an audit log.
func (a *App) actAlone(ctx context.Context, d *dburl.Database, entry queue.AuditEntry, action func(db queue.DB, entry *queue.AuditEntry) error) error {
	entry.Actor, entry.Reason = Actor(), a.Reason
	if err := action(nil, &entry); err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("%w: %w", queue.ErrUnknown, err)
		}
		return err
	}
	if auditor, ok := driver.As[driver.Auditor](d.Queue); ok {
		return auditor.Audit(ctx, nil, entry)
	}
	if a.Reason != "" {
		a.Notef("the --reason is not kept: %s has no audit log", d.Description)
		a.Reason = "" // so that this is said once
	}
	return nil
}

// limitStatements has the server end the statements of a transaction, also if this process is
// killed: the first parameter is after how many milliseconds.
const limitStatements = "SELECT set_config('lock_timeout', $1, true), set_config('statement_timeout', $1, true)"

// begin begins a transaction that writes. end rolls it back, unless it was committed.
func (a *App) begin(ctx context.Context, d *dburl.Database) (tx *sql.Tx, end func(), err error) {
	if beginner, ok := driver.As[driver.TxBeginner](d.Queue); ok {
		return beginner.BeginTx(ctx, nil, nil)
	}
	tx, err = d.DB.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return nil, nil, err
	}
	end = func() { _ = tx.Rollback() }
	if _, err := tx.ExecContext(ctx, limitStatements, strconv.FormatInt(a.Timeout.Milliseconds(), 10)); err != nil {
		end()
		return nil, nil, err
	}
	return tx, end, nil
}

// Actor returns who acts, as this host knows them: user@host.
func Actor() string {
	name := "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	host, _ := os.Hostname()
	text := name + "@" + cmp.Or(host, "unknown")
	return text[:min(len(text), 200)]
}
