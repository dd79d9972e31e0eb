//go:build generate

// Generate writes the code in ent/ent from its schema. The feature sql/execquery gives *ent.Tx
// the methods ExecContext and QueryContext, which make it a queue.DB.
package main

import (
	"log"

	"entgo.io/ent/entc"
	"entgo.io/ent/entc/gen"
)

func main() {
	if err := entc.Generate("./ent/schema", &gen.Config{}, entc.FeatureNames("sql/execquery")); err != nil {
		log.Fatal(err)
	}
}
