//go:build go1.25

package leasetest

import (
	"testing"
	"testing/synctest"
)

// bubble runs f in fake time.
func bubble(t *testing.T, f func(*testing.T)) { synctest.Test(t, f) }
