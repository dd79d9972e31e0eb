//go:build !unix

package redistest

import (
	"context"

	"github.com/redis/rueidis"
)

// process is a server; there are none here.
type process struct {
	addr, direct, bus string
	isFrozen, isAway  bool
}

func start(context.Context, string, []string, Options) (*process, error) { return nil, ErrNoServer }

func (p *process) client() (rueidis.Client, error) { return nil, ErrNoServer }

func (p *process) stop() error { return nil }

func (p *process) freeze(context.Context) error { return ErrNoServer }

func (p *process) thaw() error { return ErrNoServer }

func (p *process) hasEnded() bool { return true }
