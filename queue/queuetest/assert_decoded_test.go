package queuetest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"testing"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/middleware"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/queuetest"
)

// Jobs that are compressed and encrypted are compared by what their handlers get.
func ExampleDecoded() {
	var t printer // in a test: func TestSignUp(t *testing.T)
	secret, err := middleware.NewEncrypt(middleware.EncryptOptions{
		Keys: middleware.Keys{"test": []byte("sixteen bytes...")}, Current: "test",
	})
	if err != nil {
		log.Fatal(err)
	}
	compress := middleware.Compress{}
	q := queuetest.New(queuetest.Options{})
	enqueuer := queue.ChainEnqueuer(q, compress.Enqueuer, secret.Enqueuer)
	if err := SignUp(t.Context(), nil, enqueuer, "Alice"); err != nil {
		log.Fatal(err)
	}

	decoded := queuetest.Decoded(secret.Handler, compress.Handler) // as in the worker's Chain
	job := queuetest.WantJob(t, q, WelcomeEmail, Welcome{Name: "Alice"}, decoded)
	fmt.Println(string(job.Payload))

	queuetest.WantJob(t, q, WelcomeEmail, Welcome{Name: "Bob"}, decoded)
	// Output:
	// {"Name":"Alice"}
	// no job email.welcome with {"Name":"Bob"} was enqueued; nearest of 1:
	//   job 1 (pending): Name: got "Alice", want "Bob"
}

// sealed returns both ends of what encrypts letters in these tests.
func sealed(t *testing.T) (*middleware.Encrypt, queuetest.Option) {
	t.Helper()
	secret, err := middleware.NewEncrypt(middleware.EncryptOptions{
		Keys: middleware.Keys{"test": []byte("sixteen bytes...")}, Current: "test"})
	if err != nil {
		t.Fatal(err)
	}
	return secret, queuetest.Decoded(secret.Handler)
}

func TestDecoded(t *testing.T) {
	secret, decoded := sealed(t)
	q := newLetters(t, letter{UserID: 1}) // plain
	enqueuer := queue.ChainEnqueuer(q, secret.Enqueuer)
	tx := begin(t, q)
	for _, db := range []queue.DB{nil, tx} {
		if err := enqueuer.Enqueue(t.Context(), db, letters.New(letter{UserID: 42, Tags: []string{"a"}})); err != nil {
			t.Fatal(err)
		}
	}
	plan := queuetest.Where(func(r queue.Record) error {
		if args, err := letters.Args(&r.Job); err != nil || args.Plan != "pro" {
			return fmt.Errorf("plan %q, want pro", args.Plan)
		}
		return nil
	})
	want := func(id int64, opts ...queuetest.Option) func(testing.TB) {
		return func(t testing.TB) {
			queuetest.WantJob(t, enqueuer, letters, letter{UserID: id}, append(opts, decoded, queuetest.Except("Tags"))...)
		}
	}
	const plain = "job 1 (pending): not decoded: middleware: the payload is not encrypted, and EncryptOptions.AllowPlain is not set"
	const none = "Fatal: no job email.welcome with {\"UserID\":%d} except Tags was enqueued; nearest of "
	wantMessage(t, "", want(42, queuetest.Times(1)))
	wantMessage(t, "", want(42, queuetest.Through(tx)))
	wantMessage(t, fmt.Sprintf(none, 1)+"3:\n  job 2 (pending): UserID: got 42, want 1\n  "+plain+
		"\n  job 3 (pending): UserID: got 42, want 1; in a transaction that has not committed", want(1))
	wantMessage(t, fmt.Sprintf(none, 42)+"3:\n  job 2 (pending): plan \"\", want pro\n  "+plain+
		"\n  job 3 (pending): in a transaction that has not committed; plan \"\", want pro", want(42, plan))
	wantMessage(t, "Fatal: queuetest: Decoded: job 1: middleware: the payload is not encrypted, and EncryptOptions.AllowPlain is not set",
		func(t testing.TB) { queuetest.WantNoJob(t, q, letters, decoded, plan) })
}

// TestNotDecoded: the message names the option that is missing.
func TestNotDecoded(t *testing.T) {
	secret, _ := sealed(t)
	q := newLetters(t)
	if err := queue.ChainEnqueuer(q, secret.Enqueuer).Enqueue(t.Context(), nil, letters.New(letter{UserID: 42})); err != nil {
		t.Fatal(err)
	}
	wantMessage(t, "Fatal: no job email.welcome with {\"UserID\":42} was enqueued; nearest of 1:\n"+
		"  job 1 (pending): encrypted or compressed (aes-gcm;key=test): use queuetest.Decoded",
		func(t testing.TB) { queuetest.WantJob(t, q, letters, letter{UserID: 42}) })
}

func TestDecodedWantNoJob(t *testing.T) {
	secret, decoded := sealed(t)
	q := newLetters(t)
	if err := queue.ChainEnqueuer(q, secret.Enqueuer).Enqueue(t.Context(), nil, letters.New(letter{UserID: 42})); err != nil {
		t.Fatal(err)
	}
	wantMessage(t, "Error: 1 job email.welcome was enqueued, want none:\n  job 1 (pending): {\"UserID\":42}",
		func(t testing.TB) { queuetest.WantNoJob(t, q, letters, decoded) })
}

// TestDecodedNotPassedOn: middleware that drops jobs, or changes the one that it is given.
func TestDecodedNotPassedOn(t *testing.T) {
	q := newLetters(t, letter{UserID: 42})
	drop := func(queue.Handler) queue.Handler {
		return queue.HandlerFunc(func(context.Context, *queue.Job) error { return nil })
	}
	wantMessage(t, "Fatal: no job email.welcome with {\"UserID\":42} was enqueued; nearest of 1:\n"+
		"  job 1 (pending): not decoded: the middleware has not passed it on",
		func(t testing.TB) { queuetest.WantJob(t, q, letters, letter{UserID: 42}, queuetest.Decoded(drop)) })
	change := func(next queue.Handler) queue.Handler {
		return queue.HandlerFunc(func(ctx context.Context, job *queue.Job) error {
			job.Payload = json.RawMessage(`{"UserID":43}`)
			return next.HandleJob(ctx, job)
		})
	}
	queuetest.WantJob(t, q, letters, letter{UserID: 43}, queuetest.Decoded(change))
	queuetest.WantJob(t, q, letters, letter{UserID: 42})
}

func TestDecodedPostgres(t *testing.T) {
	extent.Long(t)
	secret, decoded := sealed(t)
	q, err := postgres.New(postgrestest.Open(t), postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	enqueuer := queue.ChainEnqueuer(q, secret.Enqueuer)
	if err := enqueuer.Enqueue(t.Context(), nil, letters.New(letter{UserID: 42})); err != nil {
		t.Fatal(err)
	}
	got := queuetest.WantJob(t, enqueuer, letters, letter{UserID: 42}, decoded)
	if len(got.Headers) > 0 {
		t.Errorf("headers of the decoded job: got %v, want none", got.Headers)
	}
}
