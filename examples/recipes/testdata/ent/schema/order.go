// Package schema has the schema of the recipe for ent, whose code a test generates.
package schema

import (
	"entgo.io/ent"
	"entgo.io/ent/dialect/entsql"
	"entgo.io/ent/schema"
	"entgo.io/ent/schema/field"

	"github.com/seed-5394e6b1/snowflake"
)

type Order struct{ ent.Schema }

func (Order) Fields() []ent.Field {
	return []ent.Field{
		// The annotation keeps the database from numbering the rows.
		field.Int64("id").GoType(snowflake.ID(0)).Annotations(entsql.Annotation{Incremental: new(bool)}),
		field.String("item"),
		field.Int64("refund_of").GoType(snowflake.ID(0)).Optional().Nillable(),
	}
}

func (Order) Annotations() []schema.Annotation {
	return []schema.Annotation{entsql.Annotation{Checks: map[string]string{"id_is_set": "id > 0"}}}
}
