package network

import (
	"os"
	"strings"
	"testing"

	"github.com/errandhq/errand/lab/chaos/internal/wire"
)

// TestPointsAreInStatements: the proxy recognizes the statements at which a worker is struck.
func TestPointsAreInStatements(t *testing.T) {
	for file, p := range map[string]point{"claim.sql": duringClaim, "settle_done.sql": duringSettling} {
		statement, err := os.ReadFile("../../../../../backend/postgres/sql/" + file)
		if err != nil {
			t.Fatal(err)
		}
		sent := strings.ReplaceAll(string(statement), "errand.", `"errand".`) // as the backend does
		if !p.is(wire.Request{SQL: []string{sent}}) {
			t.Errorf("%s: does not have the text of the point %q", file, p.name)
		}
	}
}
