package redis

import (
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/errandhq/errand/queue"
)

// isDenied reports whether a server has refused a call, or a command within a function, because of
// the user's rights.
func isDenied(err error) bool {
	e, ok := errors.AsType[*rueidis.RedisError](err)
	return ok && (strings.HasPrefix(e.Error(), "NOPERM") || strings.Contains(e.Error(), "The user executing the script can't") ||
		strings.Contains(e.Error(), "ACL failure in script"))
}

// denied is the error of a user who lacks a right. It is an [fs.ErrPermission].
type denied struct{ error }

func (denied) Is(target error) bool { return target == fs.ErrPermission }

func (d denied) Unwrap() error { return d.error }

// lacksRight returns the error of an operation for which the user lacks a right.
func lacksRight(operation string, err error) error {
	which := "a right"
	if command := refusedCommand(err.Error()); command != "" {
		which = "the right to " + command
	}
	return &queue.SetupError{Problem: fmt.Sprintf("redis: %s: this user lacks %s; docs/redis.acl has all that errand needs", operation, which), Err: denied{err}}
}

var (
	refusedLine = regexp.MustCompile(`@user_function:(\d+)`)
	calledThere = regexp.MustCompile(`redis\.p?call\('([A-Z]+)'`)
)

// refusedCommand returns the command of the library at which a function was refused. Redis 7.0
// tells the line and not the command. It returns "" if the text has no such line.
func refusedCommand(text string) string {
	found := refusedLine.FindStringSubmatch(text)
	if found == nil {
		return ""
	}
	n, err := strconv.Atoi(found[1])
	lines := strings.Split(library, "\n")
	if err != nil || n < 1 || n > len(lines) {
		return ""
	}
	if called := calledThere.FindStringSubmatch(lines[n-1]); called != nil {
		return called[1]
	}
	return ""
}
