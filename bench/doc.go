// Package bench compares the library with its peers, by the same work in one run. The benchmarks
// are in the tests; README.md has the commands.
package bench
