package driver_test

import (
	"context"
	"fmt"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/driver"
	"github.com/seed-5394e6b1/snowflake/lease/leasetest"
)

// A store has four methods: begin with the code of leasetest.Memory. A store for a fleet keeps the
// same promises with its engine: Put replaces an entry only if its version is still old, and entries
// are durable. Test the store with leasetest:
//
//	func TestStore(t *testing.T) {
//		leasetest.Run(t, func(t *testing.T) leasetest.Storage {
//			m := new(leasetest.Memory)
//			return leasetest.Storage{Open: func() driver.Store { return m }, Wipe: m.Wipe}
//		}, nil)
//	}
func ExampleStore() {
	ctx := context.Background()
	var store driver.Store = new(leasetest.Memory)
	l, err := lease.Acquire(ctx, store, &lease.Options{NewStore: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer l.Release(ctx)
	gen, err := snowflake.NewLeased(l, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	id, err := gen.NextID()
	fmt.Println(gen.Decode(id).Worker == l.Worker(), err)
	// Output: true <nil>
}
