// Package gateway serves a queue over HTTP, to workers and programs that have no connection to its
// database. backend/remote is a [queue.Queue] over this API. Any other HTTP client can use it, too:
// bodies are JSON, and /openapi.json describes them.
//
//	fleet := gateway.Access{Name: "fleet", Queues: []string{gateway.AllQueues}, May: gateway.Work}
//	tokens := []gateway.Token{{Secret: os.Getenv("WORKER_TOKEN"), Access: fleet}}
//	g, err := gateway.New(q, gateway.Options{Tokens: tokens})
//	http.Handle("/errand/", http.StripPrefix("/errand", g))
//
// A claim may wait on the gateway until a job is due. The gateway claims for all waiting clients of
// the same queues and kinds in the order in which they came, each job under the name of its
// client's worker. So IDs, fences, leases and losses are those of the database, and any gateway of
// the same database takes the settle of a job that was claimed through a different one. While no
// job is due, any number of waiting clients costs the database what one worker costs, and the
// reports that workers make of themselves cost one call a second.
package gateway
