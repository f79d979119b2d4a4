//go:build !faults || !unix

// The faults program exposes this library and its peers to six faults. bench/compare builds it with
// a clock that can be set.
package main

import "log"

func main() { log.Fatal("run this by: go run ./bench/compare") }
