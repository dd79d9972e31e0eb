package postgres

import (
	"context"

	"github.com/errandhq/errand/backend/internal/sqlkit"
	"github.com/errandhq/errand/queue"
)

// Statement is the text of a file of the sql folder, for tests that look at plans.
func Statement(name string) string {
	return inSchema(sqlkit.ReadFile(sqlFiles, "sql/"+name+".sql"), defaultSchema)
}

// ListOf is the statement that lists jobs of the status.
func ListOf(status queue.Status) string {
	s := loadStatements(defaultSchema)
	return s.listOf(status)
}

// SliceOf is the statement that lists jobs of the filter if no other does.
func SliceOf(f queue.Filter) string {
	s := loadStatements(defaultSchema)
	return s.sliceOf(f)
}

// TextArray is the array literal that Enqueue sends.
var TextArray = textArray

// Payloads is the text of payloads that Enqueue sends for a batch.
var Payloads = payloads

// Rationed reports whether claims like the request are rationed.
func (b *Backend) Rationed(req queue.ClaimRequest) bool { return b.rations.of(req, false).isRationed() }

// AddMarks adds marks to the ration of the request, as a slow rationed claim does.
func (b *Backend) AddMarks(ctx context.Context, req queue.ClaimRequest) error {
	r := b.rations.of(req, false)
	if err := r.lockClaims(ctx); err != nil {
		return err
	}
	defer r.unlockClaims()
	return b.addMarks(ctx, req, &r.progress)
}

// Strict makes b behave as if the database's default isolation level had made a statement fail.
func (b *Backend) Strict() { b.strict.Store(true) }

// LockKey is the key of the advisory lock that an operation takes in a schema.
var LockKey = lockKey

// ForgetTick makes b ask the server when the next tick of a schedule comes.
func ForgetTick(b *Backend) { b.ticks.Expire() }

// LeftSchedules returns the schedules that b leaves alone now.
func LeftSchedules(b *Backend) []string { return b.ticks.Left() }

// TickChanges is how often b has forgotten the next tick of a schedule.
func TickChanges(b *Backend) int { return b.ticks.Ask() }

// TrustDriver makes b send statements as if its driver sent each in one round trip.
func (b *Backend) TrustDriver() { b.trips.known.Store(b.db, false) }
