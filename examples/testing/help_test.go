package signup_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	signup "github.com/errandhq/errand/examples/testing"
	"github.com/errandhq/errand/queue/queuetest"
)

// fakeUsers keeps users in memory. Its transactions are the queue's, so that jobs
// are there when they commit.
type fakeUsers struct {
	queue  *queuetest.Queue
	emails []string
	tx     signup.Tx // the last one
}

func (u *fakeUsers) Begin(ctx context.Context) (signup.Tx, error) {
	tx, err := u.queue.Begin(ctx)
	u.tx = tx
	return tx, err
}

func (u *fakeUsers) Add(_ context.Context, _ signup.Tx, email string) (int64, error) {
	if slices.Contains(u.emails, email) {
		return 0, signup.ErrTaken
	}
	u.emails = append(u.emails, email)
	return int64(len(u.emails)), nil
}

// newService returns the service as most tests need it.
func newService(q *queuetest.Queue) *signup.Service {
	return &signup.Service{Users: &fakeUsers{queue: q}, Jobs: q}
}

func signUp(t *testing.T, s *signup.Service, email string) (id int64) {
	t.Helper()
	id, err := s.SignUp(t.Context(), email)
	if err != nil {
		t.Fatalf("SignUp(%s): %v", email, err)
	}
	return id
}

// fakeMailer keeps what it has sent. Handlers run concurrently, hence the mutex.
type fakeMailer struct {
	mu   sync.Mutex
	down bool
	sent []string
}

func (m *fakeMailer) Send(_ context.Context, to, subject string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.down {
		return errors.New("mail server is down")
	}
	m.sent = append(m.sent, subject+" to "+to)
	return nil
}

func (m *fakeMailer) setDown(down bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.down = down
}

func (m *fakeMailer) wantSent(t *testing.T, want ...string) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	if !slices.Equal(m.sent, want) {
		t.Errorf("sent: got %q, want %q", m.sent, want)
	}
}
