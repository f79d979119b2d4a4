package command

import (
	"errors"
	"fmt"
	"time"

	"github.com/seed-5394e6b1/snowflake"
)

// FlagSet is a set of flags, as package pflag has it, which this module does not require.
type FlagSet interface {
	BoolVar(p *bool, name string, value bool, usage string)
	IntVar(p *int, name string, value int, usage string)
	IntVarP(p *int, name, shorthand string, value int, usage string)
	StringVar(p *string, name, value, usage string)
}

// refusal is an error whose cause is the arguments.
type refusal struct{ error }

func (r refusal) Unwrap() error { return r.error }

// Refused returns an error whose cause is the arguments.
func Refused(format string, args ...any) error { return refusal{fmt.Errorf(format, args...)} }

// IsRefused reports whether the arguments are the cause of err.
func IsRefused(err error) bool {
	return errors.As(err, new(refusal)) || errors.Is(err, snowflake.ErrInvalidOptions) || errors.As(err, new(*snowflake.FieldRangeError))
}

// AtLeast returns an error if the value of a flag is below least.
func AtLeast[T int | time.Duration](flag string, value, least T) error {
	if value < least {
		return Refused("--%s %v is under %v", flag, value, least)
	}
	return nil
}

// Fits returns an error if a worker ID, datacenter or clock sequence does not fit a layout.
func Fits(l snowflake.Layout, p snowflake.Parts) error {
	p.Time = l.Epoch.Time()
	_, err := l.Encode(p)
	return err
}

// DatacenterFlag defines --datacenter.
func DatacenterFlag(fs FlagSet, datacenter *int) {
	fs.IntVar(datacenter, "datacenter", 0, "`NUMBER` of the datacenter, if the layout has datacenters")
}

// NewFlags has the values of the flags that the programs' commands named new share.
type NewFlags struct {
	ids, Datacenter int
	decode          bool
}

// Define defines the flags.
func (n *NewFlags) Define(fs FlagSet) {
	fs.IntVarP(&n.ids, "ids", "n", 1, "issue `N` IDs")
	fs.BoolVar(&n.decode, "decode", false, "print the fields after each ID")
	DatacenterFlag(fs, &n.Datacenter)
}

// Check returns an error if no IDs are asked for.
func (n *NewFlags) Check() error { return AtLeast("ids", n.ids, 1) }
