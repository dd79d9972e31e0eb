// Package schema is what ent generates the code from.
package schema

import (
	"entgo.io/ent"
	"entgo.io/ent/schema/field"
)

// Order is a row of the table orders.
type Order struct{ ent.Schema }

// Fields of an Order, besides its id.
func (Order) Fields() []ent.Field {
	return []ent.Field{field.String("customer")}
}

// Receipt is a row of the table receipts.
type Receipt struct{ ent.Schema }

// Fields of a Receipt, besides its id.
func (Receipt) Fields() []ent.Field {
	return []ent.Field{field.Int64("order_id").Unique()}
}
