//go:build generate

// Generate writes the code in internal/generated/ent from the schema. The feature sql/execquery
// gives *ent.Tx the methods ExecContext and QueryContext, which make it a queue.DB.
package main

import (
	"log"

	"entgo.io/ent/entc"
	"entgo.io/ent/entc/gen"
)

var target = &gen.Config{
	Target:  "../internal/generated/ent",
	Package: "github.com/errandhq/errand/examples/internal/generated/ent",
}

func main() {
	if err := entc.Generate("./schema", target, entc.FeatureNames("sql/execquery")); err != nil {
		log.Fatal(err)
	}
}
