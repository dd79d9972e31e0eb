package reader

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/errandhq/errand/ops/internal/words"
)

// Identity is what several checks need to know of the server.
type Identity struct {
	Version        int // such as 180001
	IsStandby      bool
	IsReadOnly     bool
	Database       string
	Clock          time.Time
	Asked, Replied time.Time // by the local clock
}

// identify asks the server who it is.
func (s *Server) identify(ctx context.Context) error {
	var name string
	i := Identity{Asked: time.Now()}
	err := s.Row(ctx, "server", &name, &i.Version, &i.IsStandby, &i.IsReadOnly, &s.Role, &s.SeesAll, &i.Clock, &i.Database)
	i.Replied = time.Now()
	if err != nil {
		return err
	}
	name, _, _ = strings.Cut(name, " ") // without the packager's own
	s.Name, s.Identity = "PostgreSQL "+name, i
	return nil
}

// Ahead returns how far the server's clock is ahead of the local one, which may be wrong by half of
// the time that the answer took.
func (i Identity) Ahead() time.Duration { return i.Clock.Sub(i.Asked.Add(i.Replied.Sub(i.Asked) / 2)) }

// Skew says that the server's clock differs from that of this host, if it does so by more than a
// second and more than the answer took.
func (i Identity) Skew() []string {
	trip := i.Replied.Sub(i.Asked)
	off := i.Ahead()
	switch beyond := off.Abs() - trip/2; {
	case beyond < time.Second:
		return nil
	case off < 0:
		return []string{fmt.Sprintf("the database's clock is %v behind that of this host", words.Short(-off))}
	}
	return []string{fmt.Sprintf("the database's clock is %v ahead of that of this host", words.Short(off))}
}
