// Package data is about what is in the tables, and which statements meet there: odd payloads and
// rows, plans, locks, races, migrations.
package data

import "github.com/errandhq/errand/lab/chaos/internal/scenario"

// All lists the scenarios of this folder.
var All = []scenario.Scenario{race, plans, burst, payloads, pinned, deadlocks, migrations, badRows, head, endedTx}
