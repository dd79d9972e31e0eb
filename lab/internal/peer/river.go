package peer

import (
	"context"
	"log/slog"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver"
	"github.com/riverqueue/river/rivermigrate"
)

// River is River on one database. Tx is the type of its transactions.
type River[Tx any] struct {
	*river.Client[Tx] // only inserts

	driver riverdriver.Driver[Tx]
	log    *slog.Logger
}

// NewRiver returns River on a driver's database. River's own log goes to log.
func NewRiver[Tx any](driver riverdriver.Driver[Tx], log *slog.Logger) (*River[Tx], error) {
	client, err := river.NewClient(driver, &river.Config{Logger: log})
	if err != nil {
		return nil, err
	}
	return &River[Tx]{client, driver, log}, nil
}

// Install makes River's tables.
func (r *River[Tx]) Install(ctx context.Context) error {
	m, err := rivermigrate.New(r.driver, &rivermigrate.Config{Logger: r.log})
	if err != nil {
		return err
	}
	_, err = m.Migrate(ctx, rivermigrate.DirectionUp, nil)
	return err
}

// Run is a worker: it runs jobs until ctx ends, and then stops gracefully.
func (r *River[Tx]) Run(ctx context.Context, config river.Config) error {
	config.Logger = r.log
	worker, err := river.NewClient(r.driver, &config)
	if err != nil {
		return err
	}
	running := context.WithoutCancel(ctx)
	if err := worker.Start(running); err != nil {
		return err
	}
	<-ctx.Done()
	return worker.Stop(running)
}
