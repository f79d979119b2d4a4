// Package postgres lets a program query PostgreSQL by lists of IDs. A single ID needs nothing: as a
// parameter it is a bigint. docs/recipes.md has more for pgx, database/sql and mappers.
package postgres

import (
	"database/sql/driver"
	"fmt"

	"github.com/seed-5394e6b1/snowflake"
)

// Array returns ids as a query parameter that is an array in PostgreSQL:
//
//	rows, err := db.Query(ctx, `SELECT ... WHERE id = ANY($1)`, postgres.Array(ids))
//
// It works through database/sql and, unlike a []snowflake.ID, in each mode of pgx. If ids is empty or
// nil, the array is empty, not NULL. If an ID is negative, the query fails with an error that
// matches [snowflake.ErrInvalidID].
func Array[T ~int64](ids []T) driver.Valuer { return array[T](ids) }

type array[T ~int64] []T

// Value returns the array in PostgreSQL's form: {1,2,3}.
func (a array[T]) Value() (driver.Value, error) {
	const decimalMax = 19
	b := append(make([]byte, 0, 2+len(a)*(decimalMax+1)), '{')
	for i, id := range a {
		if i > 0 {
			b = append(b, ',')
		}
		var err error
		if b, err = snowflake.ID(id).AppendText(b); err != nil {
			return nil, fmt.Errorf("index %d of the array: %w", i, err)
		}
	}
	return string(append(b, '}')), nil
}
