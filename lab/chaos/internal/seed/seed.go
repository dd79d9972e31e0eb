// Package plan draws what is random in a run from its seed, so that the same
// command strikes the same victims after the same pauses. What the operating system
// and the servers make of that is theirs.
package seed

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"time"
)

// Source is the randomness of one purpose. The same seed and purpose give the
// same numbers, whatever else is drawn, and in whichever process.
func Source(seed uint64, purpose ...any) *rand.Rand {
	h := fnv.New64a()
	fmt.Fprintln(h, purpose...)
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}

// Between draws a duration from least to most.
func Between(r *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(r.Int64N(int64(most-least)+1))
}

// HandlerTime is how long the handler of a job takes, in every attempt.
func HandlerTime(seed uint64, number int, least, most time.Duration) time.Duration {
	return Between(Source(seed, "handler", number), least, most)
}

// Strike is one fault to come.
type Strike struct {
	After  time.Duration // how long to wait since the one before
	Victim int           // which of the victims, from 0
	Draw   uint64        // for whatever else is to be chosen
}

// Strikes draws n faults among victims, with pauses from least to most.
func Strikes(r *rand.Rand, n, victims int, least, most time.Duration) []Strike {
	strikes := make([]Strike, n)
	for i := range strikes {
		strikes[i] = Strike{After: Between(r, least, most), Victim: r.IntN(victims), Draw: r.Uint64()}
	}
	return strikes
}
