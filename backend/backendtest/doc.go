// Package backendtest is the conformance suite that every backend passes: [Run] runs it against the
// backend that a [Harness] opens. See docs/new-backend.md for how to write a backend.
package backendtest
