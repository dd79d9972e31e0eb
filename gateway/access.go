package gateway

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/errandhq/errand/queue"
)

// Operation is a set of things that a client may do.
type Operation uint8

// The operations.
const (
	Enqueue Operation = 1 << iota // write jobs
	Claim                         // claim jobs, wait for them, and report the worker
	Extend                        // extend leases, and learn which jobs to cancel
	Settle                        // record outcomes and progress
	Read                          // read jobs, results, counts, backlogs, rules and workers
	Cancel                        // cancel jobs
)

// Sets that are often given.
const (
	// Work is what a worker needs.
	Work = Claim | Extend | Settle
	// Everything is all operations.
	Everything = Enqueue | Work | Read | Cancel
)

// String returns the names of the operations, such as "enqueue, read".
func (o Operation) String() string {
	var names []string
	for i, name := range []string{"enqueue", "claim", "extend", "settle", "read", "cancel"} {
		if o&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

// AllQueues in [Access].Queues means every queue.
const AllQueues = "*"

// Access says who sends a request, and what that client may do. The zero value may do nothing.
type Access struct {
	// Name is the client's name, for logs. Idempotency keys of different names are different, so it is
	// required with Enqueue, and no two clients should have the same. Rates are counted by name, too.
	Name string
	// Queues are the queues that the client may use. [AllQueues] among them means every queue.
	Queues []string
	// May are the operations that the client may use.
	May Operation
	// Workers is what the names of the client's workers must begin with. A settle must name the worker
	// that holds the job, so this keeps clients from settling the jobs of others. It is required with
	// Claim, Extend and Settle unless the client may use all queues. No client's Workers should be the
	// beginning of that of a different client.
	Workers string
	// MaxRequests and MaxEnqueued are the rates of this Access's Name, as in [Options]. 0 means those
	// of Options, and below 0 any number.
	MaxRequests, MaxEnqueued int
}

// isZero reports whether a may do nothing.
func (a Access) isZero() bool { return a.May == 0 }

// mayUse reports whether the client may use the queue.
func (a Access) mayUse(name string) bool {
	return slices.Contains(a.Queues, AllQueues) || slices.Contains(a.Queues, name)
}

// mayUseAll reports whether the client may use every queue.
func (a Access) mayUseAll() bool { return slices.Contains(a.Queues, AllQueues) }

// check returns an [*queue.InvalidError] if a could be used beyond its queues, or if its
// idempotency keys could be mixed up with those of others.
func (a Access) check() error {
	if a.May&Enqueue != 0 && a.Name == "" {
		return &queue.InvalidError{Field: "Access.Name", Problem: "empty: without it, idempotency keys of different clients could not be told apart"}
	}
	if a.May&Work != 0 && !a.mayUseAll() && a.Workers == "" {
		return &queue.InvalidError{Field: "Access.Workers", Problem: fmt.Sprintf("empty beside the queues %q: "+
			"without it %q could settle jobs of other queues", a.Queues, a.Name)}
	}
	return nil
}

// Token is a secret and what its bearer may do. Clients send it as "Authorization: Bearer SECRET".
type Token struct {
	// Secret has at least 16 bytes, which nobody can guess.
	Secret string
	Access Access
}

// minSecret is the shortest secret, in bytes.
const minSecret = 16

// knownToken is a token without its secret.
type knownToken struct {
	hash   [sha256.Size]byte
	access Access
}

// knownTokens returns what the gateway keeps of tokens. The error is an [*queue.InvalidError].
func knownTokens(tokens []Token) (known []knownToken, err error) {
	for i, t := range tokens {
		if len(t.Secret) < minSecret {
			return nil, &queue.InvalidError{Field: fmt.Sprintf("Options.Tokens[%d].Secret", i),
				Problem: fmt.Sprintf("%d bytes: at least %d", len(t.Secret), minSecret)}
		}
		if err := t.Access.check(); err != nil {
			if bad, ok := errors.AsType[*queue.InvalidError](err); ok {
				bad.Field = fmt.Sprintf("Options.Tokens[%d].%s", i, bad.Field)
			}
			return nil, err
		}
		isOther := func(k knownToken) bool {
			return k.access.Name == t.Access.Name && !reflect.DeepEqual(k.access, t.Access)
		}
		if t.Access.Name != "" && slices.ContainsFunc(known, isOther) {
			return nil, &queue.InvalidError{Field: fmt.Sprintf("Options.Tokens[%d].Access.Name", i),
				Problem: fmt.Sprintf("%q is the name of a different Access: their idempotency keys would be mixed up", t.Access.Name)}
		}
		token := knownToken{sha256.Sum256([]byte(t.Secret)), t.Access}
		if slices.ContainsFunc(known, func(k knownToken) bool { return k.hash == token.hash }) {
			return nil, &queue.InvalidError{Field: fmt.Sprintf("Options.Tokens[%d].Secret", i), Problem: "it is that of an earlier token"}
		}
		known = append(known, token)
	}
	return known, nil
}

// SetTokens makes the gateway accept these tokens instead of those that it has, as when secrets
// change. The error is a [*queue.InvalidError], and then nothing changes. A client waits on with a
// token that is no longer accepted, but gets no job. It may be called concurrently.
func (h *Handler) SetTokens(tokens []Token) error {
	if h.options.Authorize == nil && len(tokens) == 0 {
		return errNobody
	}
	known, err := knownTokens(tokens)
	if err == nil {
		h.tokens.Store(&known)
	}
	return err
}

// errNobody says that nobody may use the queue.
var errNobody = &queue.InvalidError{Field: "Options.Authorize", Problem: "nil, and there are no Tokens: say who may use the queue"}

// accessOf returns what the sender of r may do.
func (h *Handler) accessOf(r *http.Request) Access {
	a := h.tokenAccess(r)
	if a.isZero() && h.options.Authorize != nil {
		a = h.options.Authorize(r)
	}
	return a
}

// tokenAccess returns what the bearer of the token in r may do. It compares the token with every
// known one, in a time that does not depend on them.
func (h *Handler) tokenAccess(r *http.Request) (a Access) {
	if secret, ok := bearerOf(r); ok {
		hash := sha256.Sum256([]byte(secret))
		for _, t := range *h.tokens.Load() {
			if subtle.ConstantTimeCompare(hash[:], t.hash[:]) == 1 {
				a = t.access
			}
		}
	}
	return a
}

// bearerOf returns the token of the request's header Authorization.
func bearerOf(r *http.Request) (secret string, ok bool) {
	scheme, secret, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	return strings.TrimSpace(secret), ok && strings.EqualFold(scheme, "Bearer") && secret != ""
}
