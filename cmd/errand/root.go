package main

import (
	"context"

	"github.com/spf13/cobra"
)

// newRoot returns the command errand with all others beneath it.
func newRoot(a *app) *cobra.Command {
	return a.root(versionCommand(a), a.migrateCommand(), a.enqueueCommand(), a.jobsCommand(), a.queuesCommand(),
		a.kindsCommand(), a.schedulesCommand(), a.workersCommand(), a.statsCommand(), a.doctorCommand(), a.explainCommand(),
		a.auditCommand(), a.tailCommand(), a.topCommand(), a.webCommand(), manCommand(a))
}

// run runs the command that args name, and returns the exit code.
func run(ctx context.Context, a *app, args []string) int { return a.run(ctx, newRoot(a), args) }
