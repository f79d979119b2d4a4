// Package swag is what swag reads in the tests of the recipes.
package swag

import "github.com/seed-5394e6b1/snowflake"

// Order is an answer. Without the tags, swag writes that IDs are integers.
type Order struct {
	ID    snowflake.ID   `json:"id" swaggertype:"string"`
	Lines []snowflake.ID `json:"lines" swaggertype:"array,string"`
}

// Get answers with an order.
//
//	@Success	200	{object}	Order
//	@Router		/order [get]
func Get() {}
