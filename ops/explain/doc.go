// Package explain says why a job does not run, or what has become of it. See [Job], and package ops
// for what it asks. It finds the job by what a person types, and each reason is a function that
// judges what the reader has read.
package explain
