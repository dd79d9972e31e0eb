// Package router makes one [queue.Queue] of several backends: queues live on backends by their
// names, and one application and one [engine.Worker] serve them all.
//
//	jobs, err := router.New(router.Routes{"clicks": other, "*": postgres}, router.Options{})
//
// The backend of "*" is the home. Transactions are the home's: in one, a job for a queue that lives
// elsewhere is written to the outbox, a queue of the home, and every worker of the router forwards
// what is there. The job arrives in its own backend exactly once.
//
// # IDs
//
// A backend has a number: 0 for the home, and 1 and so on for the others. The router's ID of a job
// is its backend's ID plus 10^18 times the number. So the IDs of the home are what its own tools
// show, and 1000000000000000042 is job 42 of backend 1. Backends draw IDs below 10^18.
//
// # When a backend fails
//
// Claims go on with the other backends, and leases and outcomes of their jobs do not wait for the
// one that fails ([driver.PartialError]). The router logs when a backend fails and when it works
// again. An Enqueue fails only if it names a queue of the backend.
package router
