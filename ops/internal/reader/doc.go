// Package reader asks a backend and its server what doctor and explain need to know. Its answers
// are plain values, and know how to name what they hold. It does not judge them.
package reader
