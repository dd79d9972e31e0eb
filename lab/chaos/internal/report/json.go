package report

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/errandhq/errand/lab/internal/report"
)

// JSON writes an array of rows.
func JSON(out io.Writer, rows []*Row) error {
	type record struct {
		*Row
		Pass bool `json:"pass"` // for other programs
	}
	records := make([]record, len(rows))
	for i, r := range rows {
		records[i] = record{r, r.Pass()}
	}
	return report.JSON(out, records)
}

// Read reads files that JSON has written.
func Read(files ...string) (rows []*Row, err error) {
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		var more []*Row
		if err := json.Unmarshal(text, &more); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		rows = append(rows, more...)
	}
	return rows, nil
}
