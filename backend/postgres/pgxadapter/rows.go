package pgxadapter

import (
	"database/sql/driver"
	"fmt"
	"io"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

// rows are pgx's as database/sql reads them; the first has been fetched already.
type rows struct {
	rows     pgx.Rows
	first    bool // the row that was fetched is still to be read
	more     bool // there is such a row
	decoders []decoder
}

func (r *rows) Columns() []string {
	fields := r.rows.FieldDescriptions()
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.Name
	}
	return names
}

func (r *rows) Close() error {
	r.rows.Close() // reads what is left, which may fail
	return r.rows.Err()
}

func (r *rows) Next(dest []driver.Value) error {
	if !r.advance() {
		if err := r.rows.Err(); err != nil {
			return err
		}
		return io.EOF
	}
	if r.decoders == nil {
		r.decoders = decoders(r.rows)
	}
	for i, src := range r.rows.RawValues() {
		if dest[i] = nil; src == nil {
			continue
		}
		var err error
		if dest[i], err = r.decoders[i](src); err != nil {
			return fmt.Errorf("pgxadapter: column %d: %w", i+1, err)
		}
	}
	return nil
}

func (r *rows) advance() bool {
	if r.first {
		r.first = false
		return r.more
	}
	return r.rows.Next()
}

// decoder turns a column's bytes, which are the connection's, into a value of one of the types that
// database/sql allows drivers.
type decoder func(src []byte) (driver.Value, error)

func decoders(r pgx.Rows) []decoder {
	fields := r.FieldDescriptions()
	list := make([]decoder, len(fields))
	for i, f := range fields {
		list[i] = decoderOf(r.TypeMap(), f)
	}
	return list
}

// decoderOf chooses the types that pgx/v5/stdlib does.
func decoderOf(m *pgtype.Map, f pgconn.FieldDescription) decoder {
	switch f.DataTypeOID {
	case pgtype.BoolOID:
		return plain[bool](m, f)
	case pgtype.Int2OID, pgtype.Int4OID, pgtype.Int8OID:
		return plain[int64](m, f)
	case pgtype.Float4OID:
		return valued[pgtype.Float4](m, f)
	case pgtype.Float8OID:
		return plain[float64](m, f)
	case pgtype.ByteaOID, pgtype.JSONOID, pgtype.JSONBOID, pgtype.XMLOID:
		return plain[[]byte](m, f)
	case pgtype.DateOID:
		return valued[pgtype.Date](m, f)
	case pgtype.TimestampOID:
		return valued[pgtype.Timestamp](m, f)
	case pgtype.TimestamptzOID:
		return valued[pgtype.Timestamptz](m, f)
	case pgtype.CIDOID, pgtype.OIDOID, pgtype.XIDOID:
		return valued[pgtype.Uint32](m, f)
	}
	return plain[string](m, f)
}

// plain reads into a T, which is a type that drivers may return.
func plain[T any](m *pgtype.Map, f pgconn.FieldDescription) decoder {
	var v T
	plan := m.PlanScan(f.DataTypeOID, f.Format, &v)
	return func(src []byte) (driver.Value, error) {
		err := plan.Scan(src, &v)
		return v, err
	}
}

// valued reads into a T, which knows what to return: of an infinite time, its name.
func valued[T driver.Valuer](m *pgtype.Map, f pgconn.FieldDescription) decoder {
	var v T
	plan := m.PlanScan(f.DataTypeOID, f.Format, &v)
	return func(src []byte) (driver.Value, error) {
		if err := plan.Scan(src, &v); err != nil {
			return nil, err
		}
		return v.Value()
	}
}
