package main

import (
	"flag"
	"strings"
)

// parseArgs sets the flags in args, and returns the positional arguments. Flags may
// stand before, between and after them. "-" and negative numbers are positional,
// and so is everything after "--".
func parseArgs(fs *flag.FlagSet, args []string) (positional []string, err error) {
	for len(args) > 0 {
		switch {
		case args[0] == "--":
			return append(positional, args[1:]...), nil
		case !isFlag(args[0]):
			positional, args = append(positional, args[0]), args[1:]
		default:
			n := 1
			if len(args) > 1 && wantsValue(fs, args[0]) {
				n = 2
			}
			if err := fs.Parse(args[:n]); err != nil {
				return nil, err
			}
			args = args[n:]
		}
	}
	return positional, nil
}

func isFlag(arg string) bool {
	return len(arg) > 1 && arg[0] == '-' && !isDigit(arg[1])
}

// wantsValue reports whether arg is a flag whose value is the next argument.
func wantsValue(fs *flag.FlagSet, arg string) bool {
	name := strings.TrimPrefix(strings.TrimPrefix(arg, "-"), "-")
	f := fs.Lookup(name) // nil also if arg is -name=value
	if f == nil {
		return false
	}
	b, ok := f.Value.(interface{ IsBoolFlag() bool })
	return !ok || !b.IsBoolFlag()
}
