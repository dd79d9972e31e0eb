package queuetest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/errandhq/errand/internal/plain"
	"github.com/errandhq/errand/queue"
)

// How much a message shows.
const (
	mostArgs    = 400 // bytes
	mostNear    = 3   // jobs that are not meant
	mostReasons = 5   // of one of them
	mostListed  = 10  // jobs that are meant, or other kinds
)

// unlike says how many jobs match, and how the others that are most like them differ.
func (s *search) unlike(found []stored, misses []miss) string {
	what := s.kind + " with " + window(s.shown, 0, mostArgs)
	if len(s.except) > 0 {
		what += " except " + strings.Join(s.except, ", ")
	}
	message := enqueued(len(found), what)
	if s.times >= 0 {
		message += fmt.Sprintf(", want %d", s.times)
	}
	if len(found) > 0 {
		message += ":" + lines(found, mostListed, title)
	}
	switch {
	case len(misses) == 0, s.times >= 0 && len(found) > s.times:
		return message
	case len(found) > 0:
		message += fmt.Sprintf("\nnearest of %d more:", len(misses))
	default:
		message += fmt.Sprintf("; nearest of %d:", len(misses))
	}
	near := misses[:min(len(misses), mostNear)]
	return message + lines(near, mostNear, func(m miss) string { return title(m.stored) + ": " + m.reasons() })
}

// unwanted lists jobs of which there should be none.
func unwanted(kind string, found []stored) string {
	return enqueued(len(found), kind) + ", want none:" + lines(found, mostListed, func(j stored) string {
		return title(j) + ": " + window(string(j.Payload), 0, mostArgs)
	})
}

// noneOfKind lists the kinds that there are instead, similar names first.
func noneOfKind(kind string, all []stored) string {
	message := fmt.Sprintf("no job %s was enqueued", kind)
	if len(all) == 0 {
		return message + ", nor any other"
	}
	counts := make(map[string]int)
	for _, j := range all {
		counts[j.Kind]++
	}
	kinds := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(plain.Distance(a, kind), plain.Distance(b, kind)), cmp.Compare(a, b))
	})
	return message + "; there were:" + lines(kinds, mostListed, func(k string) string {
		return fmt.Sprintf("%d of %s", counts[k], k)
	})
}

// enqueued returns the beginning of a sentence about n jobs.
func enqueued(n int, what string) string {
	switch n {
	case 0:
		return fmt.Sprintf("no job %s was enqueued", what)
	case 1:
		return fmt.Sprintf("1 job %s was enqueued", what)
	}
	return fmt.Sprintf("%d jobs %s were enqueued", n, what)
}

// lines shows each of all on a line of its own, at most most of them.
func lines[T any](all []T, most int, show func(T) string) string {
	var b strings.Builder
	for _, v := range all[:min(len(all), most)] {
		b.WriteString("\n  " + show(v))
	}
	if more := len(all) - most; more > 0 {
		fmt.Fprintf(&b, "\n  and %d more", more)
	}
	return b.String()
}

func title(j stored) string { return fmt.Sprintf("job %d (%s)", j.ID, j.Status) }

// reasons returns the first reasons of a miss.
func (m miss) reasons() string {
	shown := strings.Join(m.why[:min(len(m.why), mostReasons)], "; ")
	if more := len(m.why) - mostReasons; more > 0 {
		shown += fmt.Sprintf("; and %d more", more)
	}
	return shown
}

// throughAnother says that a job was enqueued through got instead of want.
func throughAnother(got, want queue.DB) string {
	g, w := handleName(got), handleName(want)
	if g == w {
		return "enqueued through another " + g
	}
	return fmt.Sprintf("enqueued through %s, want %s", g, w)
}

func handleName(db queue.DB) string {
	switch db := db.(type) {
	case nil:
		return "nil"
	case fmt.Stringer:
		return db.String()
	}
	return fmt.Sprintf("%T", db)
}
