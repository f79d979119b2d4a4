package lease

import (
	crand "crypto/rand"
	"math/rand/v2"
	"time"
)

// This file is all that the package knows of the computer's disk, timers and dice. The
// simulator builds the package with another file in its place.

// hostDisk is the disk that file stores and local copies are on.
var hostDisk disk = osDisk{}

// newTimer returns a timer that fires after d.
func newTimer(d time.Duration) *time.Timer { return time.NewTimer(d) }

// randomN returns a random number from 0 to n-1.
func randomN[N int | time.Duration](n N) N { return rand.N(n) }

// randomText returns 26 random letters and digits, which nobody has had before.
func randomText() string { return crand.Text() }
