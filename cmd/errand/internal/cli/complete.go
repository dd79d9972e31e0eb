package cli

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/errandhq/errand/backend/dburl"
	"github.com/errandhq/errand/internal/plain"
)

type completer = func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective)

// FirstArg completes only the first argument.
func FirstArg(f completer) completer {
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveDefault
		}
		return f(cmd, args, typed)
	}
}

// CompleteQueues completes the name of a queue.
func (a *App) CompleteQueues(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	return a.complete(cmd, queueNames)
}

// CompleteKinds completes the name of a kind.
func (a *App) CompleteKinds(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	return a.complete(cmd, KindNames)
}

// CompleteSchedules completes the name of a schedule.
func (a *App) CompleteSchedules(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	return a.complete(cmd, scheduleNames)
}

// complete returns names from the database. Without it, or where it is slow, there are none. It
// leaves out names that a shell takes for a flag or would want in quotes: of several names the
// shell inserts what they have in common as it is.
func (a *App) complete(cmd *cobra.Command, names func(context.Context, *dburl.Database) ([]string, error)) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(cmd.Context(), a.CompletionTime)
	defer cancel()
	a.Timeout = a.CompletionTime
	d, err := a.open(ctx, dburl.Options{ReadOnly: true, MustExist: true, StatementTimeout: a.Timeout})
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer d.Close()
	list, err := names(ctx, d)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return slices.DeleteFunc(list, func(name string) bool { return !plain.IsShellWord(name) || strings.HasPrefix(name, "-") }), cobra.ShellCompDirectiveNoFileComp
}
