//go:build unix

package k8slease_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/seed-5394e6b1/snowflake/internal/depth"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/leasetest"
)

func TestStore(t *testing.T) {
	depth.NeedFull(t, "all that a store must pass")
	t.Parallel()
	addr := start(t).Addr
	leases := clientset(t, addr).CoordinationV1().Leases("default")
	var spaces atomic.Int64
	leasetest.Run(t, func(t *testing.T) leasetest.Storage {
		space := fmt.Sprint("space", spaces.Add(1))
		store(t, addr, in(space))
		return leasetest.Storage{
			Open: func() lease.Store { return calibrated(t, opened(t, addr, in(space)), addr) },
			Wipe: func() { remove(t, addr, "snowflake-ids/store="+space) },
			Garble: func(worker int) {
				o, err := leases.Get(t.Context(), fmt.Sprint(space, "-", worker), meta.GetOptions{})
				if err != nil {
					t.Fatal(err)
				}
				o.Annotations["snowflake-ids/record"] = `{"worker":1,"version":1,"tok`
				if _, err := leases.Update(context.Background(), o, meta.UpdateOptions{}); err != nil {
					t.Fatal(err)
				}
			},
		}
	}, &leasetest.Options{Window: window})
}

// remove deletes objects as kubectl delete does with a selector.
func remove(t *testing.T, addr, selector string) {
	t.Helper()
	leases := clientset(t, addr).CoordinationV1().Leases("default")
	before, err := leases.List(t.Context(), meta.ListOptions{LabelSelector: selector})
	if err == nil {
		err = leases.DeleteCollection(t.Context(), meta.DeleteOptions{}, meta.ListOptions{LabelSelector: selector})
	}
	if err != nil {
		t.Fatal(err)
	}
	if len(before.Items) == 0 {
		t.Fatalf("the test itself is wrong: there is no lease with %s", selector)
	}
}
