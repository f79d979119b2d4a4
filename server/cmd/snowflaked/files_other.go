//go:build !unix

package main

import "math"

// mostFiles returns how many files the process may open.
func mostFiles() int { return math.MaxInt32 }
