package cli

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// zeroFlags are the flags that may be 0. Their commands check them.
var zeroFlags = []string{"after", "backlog-fail", "backlog-warn", "delay", "drain-wait", "group-rate-burst", "min-attempts", "per-group", "priority",
	"rate-burst", "running", "share"}

// signedFlags are the flags that may be below 0.
var signedFlags = []string{
	"before",                      // SQL may have given jobs such IDs
	"keep-completed", "keep-dead", // below 0 means not at all
}

// checkGiven returns an error for an argument or a flag that is given without a value. Such a flag
// would count as not given, and an action would take more jobs than its filters say. checkGiven
// also refuses text that no database stores, because it is not UTF-8.
func checkGiven(cmd *cobra.Command, args []string) (err error) {
	if cmd.DisableFlagParsing { // completion: what has been typed may be empty
		return nil
	}
	if i := slices.Index(args, ""); i >= 0 {
		return Usagef("argument %d is empty", i+1)
	}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if err == nil {
			err = checkFlag(f)
		}
	})
	return err
}

func checkFlag(f *pflag.Flag) error {
	value := f.Value.String()
	switch f.Value.Type() {
	case "string", "stringSlice":
		if value == "" || value == "[]" {
			return Usagef("--%s is empty: give a value, or leave the flag out", f.Name)
		}
		if !utf8.ValidString(value) && f.Name != "url" { // a file may have any name
			return Usagef("--%s %s: not UTF-8", f.Name, value)
		}
	case "int", "int32", "int64", "duration":
		isZero, isNegative := value == "0" || value == "0s", strings.HasPrefix(value, "-")
		if isNegative && slices.Contains(signedFlags, f.Name) {
			return nil
		}
		if (isZero || isNegative) && !slices.Contains(zeroFlags, f.Name) {
			return Usagef("--%s %s: more than 0, or leave the flag out", f.Name, value)
		}
	}
	return nil
}
