//go:build !unix

package main

import (
	"io/fs"
	"math"
)

// mostFiles returns how many files the process may open.
func mostFiles() int { return math.MaxInt32 }

// readableByAll reports whether every user of the host may read a file: permissions of other
// systems do not say that.
func readableByAll(fs.FileMode) bool { return false }
