package doctor

import (
	"context"
	"database/sql"
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/errandhq/errand/ops"
	"github.com/errandhq/errand/ops/internal/reader"
	"github.com/errandhq/errand/ops/internal/words"
)

// standardRole returns which role of docs/roles.sql this one is, "" for none: it has that role's
// name, or a name with the same end, such as shop_worker, and at least half of that role's rights.
func standardRole(name string, has reader.RightSet, wanted reader.Granted) string {
	for standard, want := range wanted {
		if strings.HasSuffix(name, "_"+standard) && (name == "errand_"+standard || 2*len(want.Without(has)) <= len(want)) {
			return standard
		}
	}
	return ""
}

// readGrants returns the rights that roles have in the schema.
func readGrants(ctx context.Context, s *reader.Server) (reader.Granted, error) {
	found := make(reader.Granted)
	err := s.Rows(ctx, "grants", func(rows *sql.Rows) error {
		var role string
		var r reader.Right
		err := rows.Scan(&role, &r.Object, &r.Name)
		found.Add(role, r)
		return err
	})
	return found, err
}

// rights looks for what everybody may do, and for roles of docs/roles.sql that have other rights
// than those that it grants.
func rights(ctx context.Context, d *doctor) (finding, error) {
	var mayUse bool
	var tables string
	if err := d.Server.Row(ctx, "public_rights", &mayUse, &tables); err != nil {
		return finding{}, err
	}
	const advice = "run docs/roles.sql, which takes these rights away"
	switch {
	case mayUse && tables != "":
		return finding{ops.Fail, "every role may read or change " + tables, advice}, nil
	case mayUse:
		return finding{ops.Warn, "every role may use the schema, and call its functions", advice}, nil
	}
	var version int
	if err := d.Server.Row(ctx, "schema", &version); err != nil {
		return finding{}, err
	}
	if known, _ := goldenObjects(); version != known {
		return finding{value: fmt.Sprintf("PUBLIC has none; those of roles are known for migration %d only, the schema has %d", known, version)}, nil
	}
	found, err := readGrants(ctx, d.Server)
	if err != nil {
		return finding{}, err
	}
	f := judgeRights(found, reader.WantedRights())
	if f.level != "" {
		return f, nil
	}
	if lacking, err := findLackingRoles(ctx, d); err != nil || lacking.level != "" {
		return lacking, err
	}
	return f, nil
}

// judgeRights compares the rights of the roles that are those of docs/roles.sql.
func judgeRights(found, wanted reader.Granted) finding {
	var roles, lacks, excess []string
	for _, role := range slices.Sorted(maps.Keys(found)) {
		want := wanted[standardRole(role, found[role], wanted)]
		if want == nil {
			continue
		}
		roles = append(roles, role)
		if list := found[role].Without(want); len(list) > 0 {
			excess = append(excess, role+" has more: "+words.Enumerate(list))
		}
		if list := want.Without(found[role]); len(list) > 0 {
			lacks = append(lacks, role+" lacks "+words.Enumerate(list))
		}
	}
	switch {
	case len(lacks) > 0:
		return finding{ops.Fail, strings.Join(append(lacks, excess...), "; "), "run docs/roles.sql of this release"}
	case len(excess) > 0:
		return finding{ops.Warn, strings.Join(excess, "; "), "docs/roles.sql does not grant these rights: run it, which takes them away"}
	case len(roles) == 0:
		return finding{value: "PUBLIC has none; there are no roles of docs/roles.sql"}
	}
	return finding{value: "PUBLIC has none; as docs/roles.sql grants them: " + words.Enumerate(roles)}
}
