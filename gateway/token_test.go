package gateway_test

import (
	"errors"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/errandhq/errand/backend/memory"
	"github.com/errandhq/errand/gateway"
	"github.com/errandhq/errand/internal/wire"
	"github.com/errandhq/errand/queue"
)

// TestSetTokens: new tokens count from the next request on. A client that waits with an old one
// gets no job, and the job has used no attempt. After an error the tokens stay.
func TestSetTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := memory.New(memory.Options{})
		h := open(t, q, gateway.Options{})
		defer h.Close()
		answer := make(chan *httptest.ResponseRecorder, 1)
		go func() { answer <- send(h, "POST", "/v1/claim", claimOne("w", time.Minute)) }()
		synctest.Wait()

		for _, bad := range [][]gateway.Token{nil, {{Secret: "short", Access: everything[0].Access}}} {
			if _, ok := errors.AsType[*queue.InvalidError](h.SetTokens(bad)); !ok {
				t.Errorf("SetTokens of %d tokens gave no InvalidError", len(bad))
			}
			read[wire.CountsAnswer](t, send(h, "GET", "/v1/counts", nil))
		}
		if err := h.SetTokens([]gateway.Token{{Secret: secret + "2", Access: everything[0].Access}}); err != nil {
			t.Fatal(err)
		}
		wantError(t, "old token", send(h, "GET", "/v1/counts", nil), wire.CodeToken, "")
		enqueue(t, q, "k")
		wantError(t, "old token that waits", <-answer, wire.CodeToken, "")
		synctest.Wait()
		r := request(t.Context(), "POST", "/v1/claim", claimOne("w", 0))
		r.Header.Set("Authorization", "Bearer "+secret+"2")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if jobs := read[wire.ClaimAnswer](t, w).Jobs; len(jobs) != 1 || jobs[0].Attempt != 1 {
			t.Errorf("new token: got %+v, want the job in its first attempt", jobs)
		}
	})
}

// TestRatesOfTokens: the rates of an Access count instead of those of Options.
func TestRatesOfTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		access := everything[0].Access
		access.MaxRequests, access.MaxEnqueued = 1, -1
		h := open(t, memory.New(memory.Options{}), gateway.Options{
			MaxRequests: 100, MaxEnqueued: 1, Tokens: []gateway.Token{{Secret: secret, Access: access}},
		})
		defer h.Close()
		for range 3 {
			read[wire.EnqueueAnswer](t, send(h, "POST", "/v1/enqueue", wire.EnqueueRequest{Jobs: []wire.Job{{Kind: "k"}, {Kind: "k"}}}))
			wantRefused(t, "second request in a second", send(h, "GET", "/v1/counts", nil), "1")
			time.Sleep(time.Second)
		}
	})
}
