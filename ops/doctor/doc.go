// Package doctor says what is wrong with a queue: with its server, its tables and its workers. See
// [Examine], and package ops for what it asks. Each check is a function that judges what the reader
// has read.
package doctor
