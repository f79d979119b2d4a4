package typed_test

import (
	"encoding/json"
	"fmt"

	"github.com/seed-5394e6b1/snowflake/typed"
)

// A row of a table, and the type of its IDs.
type Invoice struct {
	ID    InvoiceID `json:"id"`
	Total int       `json:"total"`
}

func (Invoice) Prefix() string { return "invoice" }

type InvoiceID = typed.ID[Invoice]

func Example() {
	b, err := json.Marshal(Invoice{typed.New[Invoice](117469438034313216), 42})
	fmt.Println(string(b), err)

	_, err = typed.Parse[Invoice]("order_038ANTKF00000")
	fmt.Println(err)
	// Output:
	// {"id":"invoice_038ANTKF00000","total":42} <nil>
	// snowflake: invalid ID: order_038ANTKF00000 has the prefix order_, it should be invoice_
}
