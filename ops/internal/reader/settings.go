package reader

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/errandhq/errand/ops/internal/words"
)

// Settings reads settings, by their names.
func (s *Server) Settings(ctx context.Context) (map[string]string, error) {
	if s.known.settings != nil {
		s.Note(s.Load("settings"))
		return s.known.settings, nil
	}
	values := make(map[string]string)
	err := s.Rows(ctx, "settings", func(r *sql.Rows) error {
		var name, value string
		err := r.Scan(&name, &value)
		values[name] = value
		return err
	})
	if err == nil {
		s.known.settings = values
	}
	return values, err
}

// Timeout is a setting that ends what a session does. role is whose, "" for that of this role and
// the database.
type Timeout struct {
	role, name string
	after      time.Duration
}

func (t Timeout) String() string {
	if t.role == "" {
		return fmt.Sprintf("%s is %v", t.name, t.after)
	}
	return fmt.Sprintf("%s is %v for the role %s", t.name, t.after, t.role)
}

// TimeoutsBelow returns the timeouts that are shorter than bound: those of names as a session of
// this role begins, and statement_timeout and transaction_timeout of the other roles of workers. A
// role that owns the tables may set a lock_timeout for its migrations.
func (s *Server) TimeoutsBelow(ctx context.Context, bound time.Duration, names ...string) (low []Timeout, err error) {
	values, err := s.Settings(ctx)
	if err != nil {
		return nil, err
	}
	note := func(role, name, value string) {
		if t := durationOf(value); t > 0 && t < bound {
			low = append(low, Timeout{role, name, t})
		}
	}
	for _, name := range names {
		note("", name, values[name])
	}
	err = s.Rows(ctx, "role_timeouts", func(r *sql.Rows) error {
		var role, name, value string
		err := r.Scan(&role, &name, &value)
		note(role, name, value)
		return err
	})
	return low, err
}

// durationOf returns the value of a timeout as the server stores it, in milliseconds if it has no
// unit. It is 0 for one in minutes or more, and for none.
func durationOf(value string) time.Duration {
	value = strings.ReplaceAll(value, " ", "")
	if t, err := time.ParseDuration(value + "ms"); err == nil {
		return t
	}
	t, _ := time.ParseDuration(value)
	return t
}

// DescribeTimeouts says how low the timeouts are, and for which roles.
func DescribeTimeouts(list []Timeout) string {
	var texts []string
	for _, t := range list {
		texts = append(texts, t.String())
	}
	return strings.Join(texts, ", ")
}

// ResetTimeouts returns how to undo the timeouts of other roles, "" if there are none.
func ResetTimeouts(list []Timeout) string {
	var statements []string
	for _, t := range list {
		if s := fmt.Sprintf("ALTER ROLE %s SET %s = '1min'", words.Identifier(t.role), t.name); t.role != "" && !slices.Contains(statements, s) {
			statements = append(statements, s)
		}
	}
	if len(statements) == 0 {
		return ""
	}
	return ": " + strings.Join(statements, "; ") + ". Then restart the workers: sessions keep the setting with which they began"
}
