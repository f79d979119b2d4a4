package strangers

import (
	"github.com/seed-5394e6b1/snowflake/internal/cli/texts"
)

// FlagSet is a set of flags, as package pflag has it, which this module does not require.
type FlagSet interface {
	IntSlice(name string, value []int, usage string) *[]int
	String(name, value, usage string) *string
}

// Flags defines the flags of Options, and returns a function that returns them.
func Flags(fs FlagSet) func() (Options, error) {
	kept := fs.IntSlice("worker", nil,
		"worker `IDs` that are kept out of the leases, such as a database function's: counted, but not judged")
	datacenters := fs.IntSlice("datacenter", nil,
		"`NUMBERS` of the datacenters whose leases are in the store, if the layout has datacenters")
	since := fs.String("since", "",
		"skip IDs before this `TIME`, such as 2026-06-01, when the store was made or restored")
	return func() (o Options, err error) {
		o.KeptOut, o.Datacenters = *kept, *datacenters
		if *since != "" {
			o.Since, err = texts.Time(*since)
		}
		return o, err
	}
}
