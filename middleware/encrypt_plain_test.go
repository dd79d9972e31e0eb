package middleware_test

import (
	"context"
	"fmt"
	"log"

	"github.com/errandhq/errand/middleware"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/queuetest"
)

type Card struct{ Number string }

type Cart struct{ OlderThan string }

var (
	charge  = queue.NewKind[Card]("card.charge")
	cleanUp = queue.NewKind[Cart]("cart.clean")
)

func chargeCard(context.Context, *queue.Job, Card) error { return nil }

func cleanUpCarts(context.Context, *queue.Job, Cart) error { return nil }

// A kind whose jobs a schedule enqueues, too, takes plain jobs. The other kind does not.
func ExampleEncrypt_schedules() {
	ctx := context.Background()
	keys := middleware.Keys{"2026-07": []byte("thirty-two random bytes, secret!")}
	secret, err := middleware.NewEncrypt(middleware.EncryptOptions{Keys: keys, Current: "2026-07"})
	if err != nil {
		log.Fatal(err)
	}
	lenient, err := middleware.NewEncrypt(middleware.EncryptOptions{Keys: keys, Current: "2026-07", AllowPlain: true})
	if err != nil {
		log.Fatal(err)
	}
	mux := queue.NewMux()
	charge.Handle(mux, chargeCard, secret.Handler)     // encrypted jobs only
	cleanUp.Handle(mux, cleanUpCarts, lenient.Handler) // encrypted ones, and those of the schedule

	q := queuetest.New(queuetest.Options{})
	encrypted := queue.ChainEnqueuer(q, secret.Enqueuer)
	for _, job := range []struct {
		enqueuer queue.Enqueuer
		*queue.Job
	}{
		{encrypted, charge.New(Card{})}, {encrypted, cleanUp.New(Cart{})},
		{q, charge.New(Card{})}, {q, cleanUp.New(Cart{})}, // as a schedule writes them
	} {
		if err := job.enqueuer.Enqueue(ctx, nil, job.Job); err != nil {
			log.Fatal(err)
		}
		if _, err := q.Drain(ctx, mux); err != nil {
			log.Fatal(err)
		}
		r, _, err := q.Job(ctx, job.ID)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(r.Kind, r.Status)
	}
	// Output:
	// card.charge completed
	// cart.clean completed
	// card.charge dead
	// cart.clean completed
}
