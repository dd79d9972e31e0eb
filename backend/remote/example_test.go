package remote_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"time"

	"github.com/errandhq/errand/backend/memory"
	"github.com/errandhq/errand/backend/remote"
	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/gateway"
	"github.com/errandhq/errand/queue"
)

// Greeting is a job of the example.
type Greeting struct{ Name string }

var greet = queue.Kind[Greeting]{Name: "greet"}

// The program with the database serves the queue, until ctx ends.
func serveQueue(ctx context.Context, q queue.Queue) error {
	g, err := gateway.New(q, gateway.Options{Tokens: []gateway.Token{
		{Secret: os.Getenv("FLEET_TOKEN"), Access: gateway.Access{Name: "fleet", Queues: []string{gateway.AllQueues}, May: gateway.Work}},
		{Secret: os.Getenv("SHOP_TOKEN"), Access: gateway.Access{Name: "shop", Queues: []string{"orders"}, May: gateway.Enqueue | gateway.Read}},
	}})
	if err != nil {
		return err
	}
	defer g.Close()
	server := &http.Server{Addr: ":8080", Handler: http.StripPrefix("/errand", g), ReadHeaderTimeout: 5 * time.Second}
	go func() {
		<-ctx.Done()
		g.Drain()
		end, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := server.Shutdown(end); err != nil {
			log.Print(err)
		}
	}()
	return server.ListenAndServe()
}

// A worker without a connection to the database.
func work(ctx context.Context) error {
	q, err := remote.New([]string{"https://a.example/errand", "https://b.example/errand"}, remote.Options{Token: os.Getenv("FLEET_TOKEN")})
	if err != nil {
		return err
	}
	mux := queue.NewMux()
	greet.Handle(mux, func(_ context.Context, _ *queue.Job, g Greeting) error {
		_, err := fmt.Println("hello,", g.Name)
		return err
	})
	return engine.Worker{Backend: q, Handler: mux}.Run(ctx)
}

func Example() {
	g, err := gateway.New(memory.New(memory.Options{}), gateway.Options{Tokens: []gateway.Token{
		{Secret: secret, Access: gateway.Access{Name: "all", Queues: []string{gateway.AllQueues}, May: gateway.Everything}},
	}})
	if err != nil {
		log.Fatal(err)
	}
	defer g.Close()
	s := httptest.NewServer(g)
	defer s.Close()
	q, err := remote.New([]string{s.URL}, remote.Options{Token: secret})
	if err != nil {
		log.Fatal(err)
	}
	if err := q.Enqueue(context.Background(), nil, greet.New(Greeting{Name: "Ada"})); err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	mux := queue.NewMux()
	greet.Handle(mux, func(_ context.Context, _ *queue.Job, g Greeting) error {
		_, err := fmt.Println("hello,", g.Name)
		cancel()
		return err
	})
	if err := (engine.Worker{Backend: q, Handler: mux}).Run(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: hello, Ada
}

var _, _ = serveQueue, work
