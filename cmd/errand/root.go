package main

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"github.com/errandhq/errand/cmd/errand/internal/cli"
	"github.com/errandhq/errand/cmd/errand/internal/doctor"
	"github.com/errandhq/errand/cmd/errand/internal/jobs"
	"github.com/errandhq/errand/cmd/errand/internal/migrate"
	"github.com/errandhq/errand/cmd/errand/internal/queues"
	"github.com/errandhq/errand/cmd/errand/internal/schedules"
	"github.com/errandhq/errand/cmd/errand/internal/serve"
	"github.com/errandhq/errand/cmd/errand/internal/watch"
	"github.com/errandhq/errand/cmd/errand/internal/workers"
)

// newRoot returns the command errand with all other commands beneath it.
func newRoot(a *cli.App) *cobra.Command {
	return a.Root(slices.Concat(
		jobs.Commands(a), queues.Commands(a), schedules.Commands(a), workers.Commands(a), watch.Commands(a),
		doctor.Commands(a), migrate.Commands(a), serve.Commands(a),
		[]*cobra.Command{versionCommand(a), manCommand(a)},
	)...)
}

// run runs the command that args name, and returns the exit code.
func run(ctx context.Context, a *cli.App, args []string) int { return a.Run(ctx, newRoot(a), args) }
