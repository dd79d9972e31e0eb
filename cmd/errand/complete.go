package main

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/errandhq/errand/backend/dburl"
	"github.com/errandhq/errand/internal/shell"
)

type completer = func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective)

// firstArg completes only the first argument.
func firstArg(f completer) completer {
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveDefault
		}
		return f(cmd, args, typed)
	}
}

func (a *app) completeQueues(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	return a.complete(cmd, queueNames)
}

func (a *app) completeKinds(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	return a.complete(cmd, kindNames)
}

func (a *app) completeSchedules(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	return a.complete(cmd, scheduleNames)
}

// complete returns names from the database. Without it, or where it is slow, there are none. It
// leaves out names that a shell takes for a flag or would want in quotes: of several names the
// shell inserts what they have in common as it is.
func (a *app) complete(cmd *cobra.Command, names func(context.Context, *dburl.Database) ([]string, error)) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(cmd.Context(), a.completionTime)
	defer cancel()
	a.timeout = a.completionTime
	d, err := a.open(ctx, dburl.Options{ReadOnly: true, MustExist: true, StatementTimeout: a.timeout})
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer d.Close()
	list, err := names(ctx, d)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return slices.DeleteFunc(list, func(name string) bool { return !shell.IsPlain(name) || strings.HasPrefix(name, "-") }), cobra.ShellCompDirectiveNoFileComp
}
