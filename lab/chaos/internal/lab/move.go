package lab

import (
	"context"
	"errors"

	"github.com/errandhq/errand/lab/chaos/internal/server"
	"github.com/errandhq/errand/lab/chaos/internal/system"
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

// Numbers reads which jobs a server has.
func (l *Lab) Numbers(ctx context.Context, p *server.Postgres) (numbers map[int]bool, err error) {
	s, err := system.Open(ctx, l.About.Name, p.URL(Database), 1)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	jobs, err := s.Jobs(ctx, "")
	if err != nil {
		return nil, err
	}
	numbers = make(map[int]bool, len(jobs))
	for _, j := range jobs {
		numbers[j.Number] = true
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
