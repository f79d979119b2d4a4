// Package bench measures the library beside its peers: the same work for each,
// in one run. Its benchmarks are in the tests; README.md says how to run them.
package bench
