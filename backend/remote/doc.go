// Package remote keeps jobs behind a gateway: a [queue.Queue] over the HTTP API of package gateway,
// for programs and workers without a connection to the database.
//
//	urls := []string{"https://a.example/errand", "https://b.example/errand"}
//	q, err := remote.New(urls, remote.Options{Token: token})
//	err = engine.Worker{Backend: q, Handler: mux}.Run(ctx)
//
// It has no transactions: every method refuses a db that is not nil.
package remote
