// Package driver is the contract for backends, as database/sql/driver is for drivers. Applications
// do not need it.
//
// Every backend has the four operations of [queue.Queue]. All else is optional: a capability, an
// interface of few methods that [As] finds, also in a backend within wrappers. They are, by what
// they are for:
//
//	workers at work   Waiter: wake-ups; Reclaimer, DeathTeller: jobs of crashed workers, old jobs;
//	                  Upkeeper: work of the backend's own
//	transactions      TxClaimer: claim in the caller's; TxBeginner: one writer at a time;
//	                  Pooled: connections
//	people            Inspector: look; Canceller, Editor: change; Pauser: pause;
//	                  Auditor: who did what
//	schedules         Scheduler
//	limits            Ruler
//	results           ResultKeeper
//	the fleet         Fleet, Statistician
//	several backends  Delegator, Receiver, Reassigner
//	doctor, explain   Tabled or Served; Checker
//
// A backend checks its input before it writes anything, with Check of the type or with the
// functions Check… of this package. backend/backendtest has a case for each check.
package driver
