package lab

import (
	"context"
	"errors"

	"github.com/errandhq/errand/chaos/internal/server"
	"github.com/errandhq/errand/chaos/internal/system"
)

// MoveTo says that the system's database is on another server from now on.
func (l *Lab) MoveTo(ctx context.Context, p *server.Postgres) (err error) {
	if err := l.System.Close(); err != nil {
		return err
	}
	l.Server = p
	l.System, err = l.openSystem(ctx)
	return err
}

// Missing reads which jobs another server has and the system's has not.
func (l *Lab) Missing(ctx context.Context, old *server.Postgres) (numbers []int, err error) {
	now, err := l.System.Jobs(ctx, "")
	if err != nil {
		return nil, err
	}
	there := make(map[int]bool, len(now))
	for _, j := range now {
		there[j.Number] = true
	}
	s, err := system.Open(ctx, l.About.Name, old.URL(Database), 1)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	before, err := s.Jobs(ctx, "")
	if err != nil {
		return nil, err
	}
	for _, j := range before {
		if !there[j.Number] {
			numbers = append(numbers, j.Number)
		}
	}
	return numbers, nil
}

// Gone says that the system may lose these jobs.
func (l *Lab) Gone(numbers []int) {
	if l.gone == nil {
		l.gone = make(map[int]bool)
	}
	for _, n := range numbers {
		l.gone[n] = true
	}
}
