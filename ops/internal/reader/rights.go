package reader

import (
	_ "embed"
	"slices"
	"strings"
)

// goldenRights is what docs/roles.sql grants, a right a line: the role without "errand_", the
// object and the right. TestGoldenRights says how to write it again.
//
//go:embed sql/postgres/rights.txt
var goldenRights string

// Right is a right on an object of the schema, such as SELECT on "the table jobs".
type Right struct{ Object, Name string }

func (r Right) String() string { return r.Name + " on " + r.Object }

// RightSet is what one role may do.
type RightSet map[Right]bool

// Without returns the rights of s that other does not give. A right on a table gives the same right
// on its columns.
func (s RightSet) Without(other RightSet) (list []string) {
	for r := range s {
		name, isColumn := strings.CutPrefix(r.Object, "the column ")
		table, _, _ := strings.Cut(name, ".")
		ofTable := isColumn && other[Right{"the table " + table, r.Name}]
		if !other[r] && !ofTable {
			list = append(list, r.String())
		}
	}
	slices.Sort(list)
	return list
}

// Granted are the rights of roles, by their names.
type Granted map[string]RightSet

// Add adds a right of a role.
func (g Granted) Add(role string, r Right) {
	if g[role] == nil {
		g[role] = make(RightSet)
	}
	g[role][r] = true
}

// WantedRights returns what docs/roles.sql grants.
func WantedRights() Granted {
	wanted := make(Granted)
	for line := range strings.Lines(goldenRights) {
		if parts := strings.Split(strings.TrimSpace(line), "\t"); len(parts) == 3 {
			wanted.Add(parts[0], Right{parts[1], parts[2]})
		}
	}
	return wanted
}
