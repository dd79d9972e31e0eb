// Package seed draws the random numbers of a run from its seed, so that the same command strikes
// the same victims after the same pauses. What the operating system and the servers do then may
// still differ.
package seed

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"time"
)

// Source returns the random numbers of one purpose. The same seed and purpose give the same
// numbers, in every process, and independently of other purposes.
func Source(seed uint64, purpose ...any) *rand.Rand {
	h := fnv.New64a()
	fmt.Fprintln(h, purpose...)
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}

// Between draws a duration between least and most.
func Between(r *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(r.Int64N(int64(most-least)+1))
}

// HandlerTime returns how long the handler of a job takes, in every attempt.
func HandlerTime(seed uint64, number int, least, most time.Duration) time.Duration {
	return Between(Source(seed, "handler", number), least, most)
}

// Strike is one fault to make.
type Strike struct {
	After  time.Duration // the pause before it
	Victim int           // the index of the victim
	Draw   uint64        // for any other choice
}

// Strikes draws n faults among victims, with pauses between least and most.
func Strikes(r *rand.Rand, n, victims int, least, most time.Duration) []Strike {
	strikes := make([]Strike, n)
	for i := range strikes {
		strikes[i] = Strike{After: Between(r, least, most), Victim: r.IntN(victims), Draw: r.Uint64()}
	}
	return strikes
}
