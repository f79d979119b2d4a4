package lease

import "github.com/seed-5394e6b1/snowflake/lease/driver"

// What a store has to do is told in package driver. These are its names for those who use one.
type (
	Store    = driver.Store
	Entry    = driver.Entry
	Windower = driver.Windower
)

// MaxWindow is the longest Options.Window, unless three ticks of the layout are longer. Because of
// it, newcomers know how long they have to wait after a store lost its records. Only a directory of
// which nothing is left does not tell that it was used: see the hazards of [File].
const MaxWindow = driver.MaxWindow

// Errors of a store. See [driver.ErrConflict], [driver.ErrAway] and [driver.ErrRefused].
var (
	ErrConflict = driver.ErrConflict
	ErrAway     = driver.ErrAway
	ErrRefused  = driver.ErrRefused
)
