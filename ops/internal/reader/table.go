package reader

import "context"

// tableStats is what sql/postgres/table.sql returns.
type tableStats struct {
	Bytes          int64
	HasRowSecurity bool
	tuples         float64
	Age            int64
	Triggers       string
	NoAutovacuum   bool
}

// Stats returns the numbers of the table of jobs.
func (s *Server) Stats(ctx context.Context) (t tableStats, err error) {
	if s.known.table != nil {
		s.Note(s.Load("table"))
		return *s.known.table, nil
	}
	err = s.Row(ctx, "table", &t.Bytes, &t.HasRowSecurity, &t.tuples, &t.Age, &t.Triggers, &t.NoAutovacuum)
	if err == nil {
		s.known.table = &t
	}
	return t, err
}

// DisableRowSecurity is how to let every role see all jobs.
func (s *Server) DisableRowSecurity() string {
	return "ALTER TABLE " + s.Table("jobs") + " DISABLE ROW LEVEL SECURITY"
}
