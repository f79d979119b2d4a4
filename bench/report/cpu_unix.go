//go:build unix

package main

// cpuKnown is whether the benchmarks can read the time of the processor.
const cpuKnown = true
