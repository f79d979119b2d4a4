//go:build !race

package depth

// Race reports whether the race detector is on. It slows down what runs on one goroutine at a time
// tenfold.
const Race = false
