package data

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// catalogueSQL reads all definitions of the schema, a line each.
const catalogueSQL = `SELECT string_agg(line, E'\n' ORDER BY line) FROM (
	SELECT format('relation %s %s %s %s', oid::regclass, relkind, reloptions, relpersistence) AS line FROM pg_class WHERE relnamespace = 'errand'::regnamespace
	UNION ALL SELECT format('column %s %s %s %s %s %s %s', attrelid::regclass, attnum, attname, atttypid::regtype, attnotnull, attidentity,
		pg_get_expr(adbin, adrelid))
		FROM pg_attribute JOIN pg_class c ON c.oid = attrelid LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
		WHERE relnamespace = 'errand'::regnamespace AND attnum > 0
	UNION ALL SELECT format('constraint %s %s %s', conrelid::regclass, conname, pg_get_constraintdef(oid)) FROM pg_constraint
		WHERE connamespace = 'errand'::regnamespace
	UNION ALL SELECT pg_get_indexdef(indexrelid) FROM pg_index JOIN pg_class c ON c.oid = indexrelid WHERE relnamespace = 'errand'::regnamespace
	UNION ALL SELECT pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = 'errand'::regnamespace
	UNION ALL SELECT format('label %s %s %s', enumtypid::regtype, enumsortorder, enumlabel) FROM pg_enum JOIN pg_type t ON t.oid = enumtypid
		WHERE typnamespace = 'errand'::regnamespace
	UNION ALL SELECT format('sequence %s %s %s %s', seqrelid::regclass, seqtypid::regtype, seqincrement, seqcache) FROM pg_sequence
	UNION ALL SELECT format('trigger %s', pg_get_triggerdef(oid)) FROM pg_trigger WHERE NOT tgisinternal
	UNION ALL SELECT format('migration %s %s', version, name) FROM errand.migrations
) AS lines`

// catalogue reads the definitions of the schema in a database.
func catalogue(ctx context.Context, dsn string) (text string, err error) {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return "", err
	}
	defer conn.Close(ctx)
	err = conn.QueryRow(ctx, catalogueSQL).Scan(&text)
	return text, err
}
