// Package servers breaks the database server: it kills it, fails over, fills its disk, and changes
// its settings.
package servers

import "github.com/errandhq/errand/lab/chaos/internal/scenario"

// All lists the scenarios of this folder.
var All = []scenario.Scenario{crash, standby, synchronous, isolation, limits, disk, cluster, clusterAsync, partition, partitionAsync, partitionReplicas, clusterDisk, clusterDiskAsync, clusterClock, clusterRules, clusterRulesAsync}
