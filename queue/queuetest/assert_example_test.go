package queuetest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/queuetest"
)

// printer stands for the *testing.T of a test, in these examples: it prints.
type printer struct{ testing.TB }

func (printer) Helper()                  {}
func (printer) Context() context.Context { return context.Background() }
func (printer) Error(args ...any)        { fmt.Println(args...) }
func (printer) Fatal(args ...any)        { fmt.Println(args...) }

// Was it enqueued, and with these arguments? A failure shows what was instead.
func ExampleWantJob() {
	var t printer // in a test: func TestSignUp(t *testing.T)
	q := queuetest.New(queuetest.Options{})
	for _, name := range []string{"Alice", "Bob"} {
		if err := SignUp(t.Context(), nil, q, name); err != nil {
			t.Fatal(err)
		}
	}
	job := queuetest.WantJob(t, q, WelcomeEmail, Welcome{Name: "Alice"})
	fmt.Println(job.ID, job.Status)

	queuetest.WantJob(t, q, WelcomeEmail, Welcome{Name: "Carol"})
	// Output:
	// 1 pending
	// no job email.welcome with {"Name":"Carol"} was enqueued; nearest of 2:
	//   job 2 (pending): Name: got "Bob", want "Carol"
	//   job 1 (pending): Name: got "Alice", want "Carol"
}

// Options say more of the job than its arguments.
func ExampleWantJob_options() {
	var t printer // in a test: func TestSignUp(t *testing.T)
	q := queuetest.New(queuetest.Options{})
	job := WelcomeEmail.New(Welcome{Name: "Alice"})
	job.Delay, job.Key = time.Hour, "welcome:Alice"
	if err := q.Enqueue(t.Context(), nil, job); err != nil {
		t.Fatal(err)
	}

	hasKey := func(r queue.Record) error {
		if r.Key != "welcome:Alice" {
			return fmt.Errorf("key %q", r.Key)
		}
		return nil
	}
	queuetest.WantJob(t, q, WelcomeEmail, Welcome{Name: "Alice"},
		queuetest.Times(1), queuetest.DueIn(time.Hour), queuetest.Where(hasKey))
	queuetest.WantJob(t, q, WelcomeEmail, Welcome{Name: "Alice"}, queuetest.InQueue("critical"))
	// Output:
	// no job email.welcome with {"Name":"Alice"} was enqueued; nearest of 1:
	//   job 1 (pending): in queue default, want critical
}

func ExampleWantNoJob() {
	var t printer // in a test: func TestSignUp(t *testing.T)
	q := queuetest.New(queuetest.Options{})
	queuetest.WantNoJob(t, q, WelcomeEmail)

	if err := SignUp(t.Context(), nil, q, "Alice"); err != nil {
		t.Fatal(err)
	}
	queuetest.WantNoJob(t, q, WelcomeEmail)
	// Output:
	// 1 job email.welcome was enqueued, want none:
	//   job 1 (pending): {"Name":"Alice"}
}

// Was it enqueued in the transaction of the business write? The job is found
// before that commits, too.
func ExampleThrough() {
	var t printer // in a test: func TestSignUp(t *testing.T)
	q := queuetest.New(queuetest.Options{})
	tx, err := q.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := SignUp(t.Context(), tx, q, "Alice"); err != nil {
		t.Fatal(err)
	}
	queuetest.WantJob(t, q, WelcomeEmail, Welcome{Name: "Alice"}, queuetest.Through(tx))

	if err := SignUp(t.Context(), nil, q, "Bob"); err != nil { // the transaction was forgotten
		t.Fatal(err)
	}
	queuetest.WantJob(t, q, WelcomeEmail, Welcome{Name: "Bob"}, queuetest.Through(tx))
	// Output:
	// no job email.welcome with {"Name":"Bob"} was enqueued; nearest of 2:
	//   job 2 (pending): enqueued through nil, want memory.Tx
	//   job 1 (pending): Name: got "Alice", want "Bob"
}

// What a test cannot know is left out of the comparison, and read from the job.
func ExampleExcept() {
	var t printer // in a test: func TestInvite(t *testing.T)
	type Invite struct{ Email, Token string }
	invites := queue.NewKind[Invite]("email.invite")
	q := queuetest.New(queuetest.Options{})
	if err := q.Enqueue(t.Context(), nil, invites.New(Invite{Email: "a@example.com", Token: "k7Qx"})); err != nil {
		t.Fatal(err)
	}

	job := queuetest.WantJob(t, q, invites, Invite{Email: "a@example.com"}, queuetest.Except("Token"))
	invite, err := invites.Args(&job.Job)
	fmt.Println(invite.Token, err)
	// Output: k7Qx <nil>
}

// With Inline jobs run at once. One that fails is recorded, as in production, and
// does not make Enqueue fail.
func ExampleOptions_inline() {
	ctx := context.Background()
	mux := queue.NewMux()
	q := queuetest.New(queuetest.Options{Inline: mux})
	WelcomeEmail.Handle(mux, func(ctx context.Context, job *queue.Job, w Welcome) error {
		if w.Name == "" {
			return errors.New("no name")
		}
		fmt.Println("Welcome,", w.Name)
		return nil
	})

	fmt.Println(SignUp(ctx, nil, q, "Alice"))
	fmt.Println(SignUp(ctx, nil, q, ""))
	failed := queuetest.WantJob(printer{}, q, WelcomeEmail, Welcome{})
	fmt.Println(failed.Status, failed.LastError)
	// Output:
	// Welcome, Alice
	// <nil>
	// <nil>
	// pending no name
}
