package peer

import (
	"os"
	"path/filepath"
	"testing"
)

// openTest opens the file as a child does.
func openTest(t *testing.T, path string) *inFile {
	t.Helper()
	s, err := Open(t.Context(), "sqlite", path, 3)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s.(*inFile)
}

// numbers returns 1 to n.
func numbers(n int) (all []int) {
	for i := range n {
		all = append(all, i+1)
	}
	return all
}

func TestSQLite(t *testing.T) {
	f := openTest(t, filepath.Join(t.TempDir(), "test.db"))
	if err := f.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := f.Enqueue(t.Context(), Plain, numbers(3)...); err != nil {
		t.Fatal(err)
	}
	if n, err := f.Live(t.Context()); err != nil || n != 3 {
		t.Errorf("live: got %d, %v, want 3", n, err)
	}
	jobs, err := f.Jobs(t.Context(), "")
	if err != nil || len(jobs) != 3 || jobs[2].Number != 3 || jobs[2].State != Waiting || jobs[2].Row == "" || !jobs[2].EndedAt.IsZero() {
		t.Errorf("all jobs: got %+v, %v, want 3 that wait", jobs, err)
	}
	if jobs, err := f.Jobs(t.Context(), "w1"); err != nil || len(jobs) != 0 {
		t.Errorf("jobs of a worker: got %+v, %v, want none", jobs, err)
	}
	if n := f.db.Stats().OpenConnections; n != 0 {
		t.Errorf("the process that installed has %d connections, want none", n)
	}
}

// TestDamageIsFound overwrites a part of the file.
func TestDamageIsFound(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.db")
	whole := openTest(t, path)
	if err := whole.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := whole.Enqueue(t.Context(), Plain, numbers(1000)...); err != nil {
		t.Fatal(err)
	}
	for _, thorough := range []bool{false, true} {
		if got, err := whole.Check(t.Context(), thorough); err != nil || got != "ok" {
			t.Errorf("before, thorough %v: got %q, %v, want ok", thorough, got, err)
		}
	}
	if err := whole.Close(); err != nil {
		t.Fatal(err)
	}
	damage(t, path)
	damaged := openTest(t, path)
	for _, thorough := range []bool{false, true} {
		if got, err := damaged.Check(t.Context(), thorough); err == nil && got == "ok" {
			t.Errorf("after, thorough %v: got ok, want the damage", thorough)
		}
	}
}

// damage overwrites the second half of a file, which has only pages with jobs.
func damage(t *testing.T, path string) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := len(content) / 2; i < len(content); i++ {
		content[i] = 0xff
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}
