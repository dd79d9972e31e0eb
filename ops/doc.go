// Package ops answers an operator's questions about a queue: what is wrong with it ([Doctor]), and
// why a job does not run ([Explain]). Both only read, and may be called at any time, also while
// workers run. The command line and the dashboard show what they return.
//
// Both work with every backend, by its optional interfaces such as [driver.Inspector]. For a
// backend whose jobs are in tables of PostgreSQL ([driver.Tabled]) they also ask the server: for
// locks, open transactions, settings and rights. They take one connection of the backend's handle
// at a time, and a second one for two checks of Doctor. Each statement may take two seconds. What
// the connection's role may not read is reported as not known, with the right that is missing. Of
// Redis they judge what its servers tell ([driver.Served]).
package ops
