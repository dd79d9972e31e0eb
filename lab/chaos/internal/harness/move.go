package harness

import (
	"context"
	"errors"

	"github.com/errandhq/errand/lab/chaos/internal/peer"
	"github.com/errandhq/errand/lab/chaos/internal/server"
)

// UseServer changes the server of the system's database.
func (h *Harness) UseServer(ctx context.Context, p *server.Postgres) error {
	h.Server = p
	return h.Reopen(ctx)
}

// Reopen opens the system for this process anew. A client of a cluster that was idle while each
// node was replaced knows none of the present ones.
func (h *Harness) Reopen(ctx context.Context) (err error) {
	if err := h.Peer.Close(); err != nil {
		return err
	}
	h.Peer, err = h.openSystem(ctx)
	return err
}

// Numbers reads the numbers of the jobs on a server.
func (h *Harness) Numbers(ctx context.Context, p *server.Postgres) (numbers map[int]bool, err error) {
	s, err := peer.Open(ctx, h.System.Name, p.URL(Database), 1)
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

// AllowLoss says that the system may lose these jobs, and what they are.
func (h *Harness) AllowLoss(what string, numbers []int) {
	if h.mayLose == nil {
		h.mayLose = make(map[int]bool)
	}
	h.lossIs = what
	for _, n := range numbers {
		h.mayLose[n] = true
	}
}
