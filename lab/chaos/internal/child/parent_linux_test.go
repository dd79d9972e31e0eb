package child

import "testing"

// TestChildrenEndWithTheirParent ends the starter's thread, as the parent's end does. A frozen
// child must end, too.
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
