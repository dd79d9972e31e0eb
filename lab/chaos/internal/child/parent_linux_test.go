package child

import "testing"

// TestChildrenEndWithTheirParent ends the thread that stands for the parent's life: a
// frozen child must not be left behind.
func TestChildrenEndWithTheirParent(t *testing.T) {
	s := NewStarter("")
	p, err := s.Start(Spec{Part: "sleep", Name: "w1"})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Freeze(); err != nil {
		t.Fatal(err)
	}
	s.Close()
	awaitEnd(t, p)
}
