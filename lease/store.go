package lease

import "github.com/seed-5394e6b1/snowflake/lease/driver"

// Package driver documents a store, for those who write one.
type (
	Store = driver.Store
	Entry = driver.Entry
)

// MaxWindow is the longest Options.Window, unless three ticks of the layout are longer. It bounds
// the wait of newcomers after a store lost its records.
const MaxWindow = driver.MaxWindow
