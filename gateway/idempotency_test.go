package gateway

import (
	"crypto/sha256"
	"testing"
	"testing/synctest"
	"time"
)

// TestAnswersAreBounded: the oldest answers are forgotten if those that are kept have too many
// jobs, and when their time is over, also if no further request comes.
func TestAnswersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAnswers()
		begin := func(key string) bool {
			_, isNew := s.begin(answerKey{"client", key}, sha256.Sum256(nil), maxAnswered/2+1)
			return isNew
		}
		begin("a")
		begin("b")
		begin("c")
		if begin("c") || !begin("a") {
			t.Error("after three requests of half a million jobs: want the last one known, and the first one forgotten")
		}
		time.Sleep(answerKept + 1)
		s.sweep()
		if len(s.byKey) != 0 || len(s.order) != 0 || s.jobs != 0 {
			t.Errorf("after ten minutes: %d keys, %d answers and %d jobs are kept", len(s.byKey), len(s.order), s.jobs)
		}
	})
}
