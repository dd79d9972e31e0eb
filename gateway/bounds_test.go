package gateway_test

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/errandhq/errand/backend/memory"
	"github.com/errandhq/errand/gateway"
	"github.com/errandhq/errand/internal/wire"
	"github.com/errandhq/errand/queue"
)

// TestManyGroups: clients that name ever different kinds are refused, until the sets that nobody
// uses any more make room. Naming a kind twice, or in a different order, makes no new set.
func TestManyGroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, memory.New(memory.Options{}), gateway.Options{})
		defer h.Close()
		claim := func(kinds ...string) *httptest.ResponseRecorder {
			return send(h, "POST", "/v1/claim", wire.ClaimRequest{Queues: []string{"q"}, Kinds: kinds, Worker: "w"})
		}
		for i := range 999 {
			read[wire.ClaimAnswer](t, claim(fmt.Sprint("k", i)))
		}
		read[wire.ClaimAnswer](t, claim("a", "b"))
		read[wire.ClaimAnswer](t, claim("b", "a", "b"))
		wantError(t, "one set of kinds more", claim("c"), wire.CodeTooMany, "")
		time.Sleep(6 * time.Second)
		read[wire.ClaimAnswer](t, claim("c"))
	})
}

// TestLongPage: a page of long jobs ends after 32 MiB, and the next one goes on behind it.
func TestLongPage(t *testing.T) {
	q := memory.New(memory.Options{})
	h := open(t, q, gateway.Options{})
	defer h.Close()
	payload := json.RawMessage(`"` + strings.Repeat("x", 1<<20-2) + `"`)
	const jobs = 40
	for range jobs {
		if err := q.Enqueue(t.Context(), nil, &queue.Job{Queue: "q", Kind: "k", Payload: payload}); err != nil {
			t.Fatal(err)
		}
	}
	before, id := int64(0), int64(jobs)
	for _, want := range []int{32, 8} {
		page := read[wire.JobsAnswer](t, send(h, "GET", fmt.Sprintf("/v1/jobs?queue=q&limit=1000&before=%d", before), nil))
		if len(page.Jobs) != want {
			t.Errorf("a page before %d: got %d jobs, want %d", before, len(page.Jobs), want)
		}
		for _, j := range page.Jobs {
			if j.ID != id {
				t.Fatalf("got job %d, want %d", j.ID, id)
			}
			id--
		}
		before = page.Next
	}
	if before != 0 {
		t.Errorf("next of the last page: got %d, want 0", before)
	}
}
