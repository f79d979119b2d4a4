//go:build !go1.25

package leasetest

import "testing"

// bubble fails the test, because Go 1.24 has no fake time.
func bubble(t *testing.T, _ func(*testing.T)) { t.Fatal("Options.FakeTime needs Go 1.25 or later") }
