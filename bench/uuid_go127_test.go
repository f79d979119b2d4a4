//go:build go1.27

package bench

import (
	"testing"
	"uuid"
)

// The standard library has had UUIDs since Go 1.27.
func init() {
	ample = append(ample, lib{name: "std-uuid-v7", open: func(testing.TB) issue {
		return func(n int) error {
			for range n {
				uuid.NewV7()
			}
			return nil
		}
	}})
}
