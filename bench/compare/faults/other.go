//go:build !faults || !unix

// The faults program does six faults to this library and its peers. Its clock can be
// set only if bench/compare builds it.
package main

import "log"

func main() { log.Fatal("run this by: go run ./bench/compare") }
