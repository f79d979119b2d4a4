//go:build race

package depth

// Race reports whether the race detector is on. It makes sequential code ten times slower.
const Race = true
