package postgres

import "github.com/errandhq/errand/queue"

// Statement is the text of a file of the sql folder, for tests that look at plans.
func Statement(name string) string { return inSchema(readSQL("sql/"+name+".sql"), defaultSchema) }

// TextArray is the array literal that Enqueue sends.
var TextArray = textArray

// Payloads is the text of payloads that Enqueue sends for a batch.
var Payloads = payloads

// Dear says whether the claims of that request begin at the front.
func (b *Backend) Dear(req queue.ClaimRequest) bool {
	f := b.fronts.of(req)
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dear
}

// Strict makes b behave as where the database's default isolation level has been in the way.
func (b *Backend) Strict() { b.strict.Store(true) }

// LockKey is the key of the advisory lock that a verb takes in a schema.
var LockKey = lockKey
