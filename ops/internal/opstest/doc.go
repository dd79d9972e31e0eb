// Package opstest has what the tests of ops, doctor and explain share: backends, jobs and servers
// with a fault.
package opstest
