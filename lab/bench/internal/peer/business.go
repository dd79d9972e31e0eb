package peer

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// insertBusiness is the application's one write in the transactions of [Transactor].
const insertBusiness = `INSERT INTO public.business (amount) VALUES ($1)`

// InstallBusiness makes the application's table.
func InstallBusiness(ctx context.Context, dsn string) error {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, `CREATE TABLE public.business (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, amount bigint NOT NULL)`)
	return err
}
