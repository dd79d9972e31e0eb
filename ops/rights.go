package ops

import (
	"context"
	"database/sql"
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// goldenRights is what docs/roles.sql grants, a right a line: the role without "errand_", the
// object and the right. TestGoldenRights says how to write it again.
//
//go:embed sql/postgres/rights.txt
var goldenRights string

// right is a right on an object of the schema, such as SELECT on "the table jobs".
type right struct{ object, name string }

func (r right) String() string { return r.name + " on " + r.object }

// rightSet is what one role may do.
type rightSet map[right]bool

// without returns the rights of s that other does not give. A right on a table gives the same right
// on its columns.
func (s rightSet) without(other rightSet) (list []string) {
	for r := range s {
		name, isColumn := strings.CutPrefix(r.object, "the column ")
		table, _, _ := strings.Cut(name, ".")
		ofTable := isColumn && other[right{"the table " + table, r.name}]
		if !other[r] && !ofTable {
			list = append(list, r.String())
		}
	}
	slices.Sort(list)
	return list
}

// granted are the rights of roles, by their names.
type granted map[string]rightSet

func (g granted) add(role string, r right) {
	if g[role] == nil {
		g[role] = make(rightSet)
	}
	g[role][r] = true
}

// standardRole returns which role of docs/roles.sql this one is, "" for none: it has that role's
// name, or a name with the same end, such as shop_worker, and at least half of that role's rights.
func standardRole(name string, has rightSet, wanted granted) string {
	for standard, want := range wanted {
		if strings.HasSuffix(name, "_"+standard) && (name == "errand_"+standard || 2*len(want.without(has)) <= len(want)) {
			return standard
		}
	}
	return ""
}

// wantedRights returns what docs/roles.sql grants.
func wantedRights() granted {
	wanted := make(granted)
	for line := range strings.Lines(goldenRights) {
		if parts := strings.Split(strings.TrimSpace(line), "\t"); len(parts) == 3 {
			wanted.add(parts[0], right{parts[1], parts[2]})
		}
	}
	return wanted
}

// readGrants returns the rights that roles have in the schema.
func readGrants(ctx context.Context, s *server) (granted, error) {
	found := make(granted)
	err := s.rows(ctx, "grants", func(rows *sql.Rows) error {
		var role string
		var r right
		err := rows.Scan(&role, &r.object, &r.name)
		found.add(role, r)
		return err
	})
	return found, err
}

// rights looks for what everybody may do, and for roles of docs/roles.sql that have other rights
// than those that it grants.
func rights(ctx context.Context, d *doctor) (finding, error) {
	var mayUse bool
	var tables string
	if err := d.Server.row(ctx, "public_rights", &mayUse, &tables); err != nil {
		return finding{}, err
	}
	const advice = "run docs/roles.sql, which takes these rights away"
	switch {
	case mayUse && tables != "":
		return finding{Fail, "every role may read or change " + tables, advice}, nil
	case mayUse:
		return finding{Warn, "every role may use the schema, and call its functions", advice}, nil
	}
	var version int
	if err := d.Server.row(ctx, "schema", &version); err != nil {
		return finding{}, err
	}
	if known, _ := goldenObjects(); version != known {
		return finding{value: fmt.Sprintf("PUBLIC has none; those of roles are known for migration %d only, the schema has %d", known, version)}, nil
	}
	found, err := readGrants(ctx, d.Server)
	if err != nil {
		return finding{}, err
	}
	f := judgeRights(found, wantedRights())
	if f.level != "" {
		return f, nil
	}
	if lacking, err := findLackingRoles(ctx, d); err != nil || lacking.level != "" {
		return lacking, err
	}
	return f, nil
}

// judgeRights compares the rights of the roles that are those of docs/roles.sql.
func judgeRights(found, wanted granted) finding {
	var roles, lacks, excess []string
	for _, role := range slices.Sorted(maps.Keys(found)) {
		want := wanted[standardRole(role, found[role], wanted)]
		if want == nil {
			continue
		}
		roles = append(roles, role)
		if list := found[role].without(want); len(list) > 0 {
			excess = append(excess, role+" has more: "+enumerate(list))
		}
		if list := want.without(found[role]); len(list) > 0 {
			lacks = append(lacks, role+" lacks "+enumerate(list))
		}
	}
	switch {
	case len(lacks) > 0:
		return finding{Fail, strings.Join(append(lacks, excess...), "; "), "run docs/roles.sql of this release"}
	case len(excess) > 0:
		return finding{Warn, strings.Join(excess, "; "), "docs/roles.sql does not grant these rights: run it, which takes them away"}
	case len(roles) == 0:
		return finding{value: "PUBLIC has none; there are no roles of docs/roles.sql"}
	}
	return finding{value: "PUBLIC has none; as docs/roles.sql grants them: " + enumerate(roles)}
}
