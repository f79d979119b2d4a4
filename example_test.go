package snowflake_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/layouts"
)

// noonClock always reads the same time, so that the examples always print the same.
var noonClock = snowflake.ClockFunc(func() time.Time {
	return time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
})

func Example() {
	gen, err := snowflake.New(7, &snowflake.Options{Clock: noonClock})
	if err != nil {
		fmt.Println(err)
		return
	}
	id, err := gen.NextID()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(id)
	fmt.Println(snowflake.Decode(id))
	// Output:
	// 117594862387228672
	// time=2026-11-21T12:00:00.000Z worker=7 sequence=0
}

// The test sets the clock, so the IDs are the same in each run. As long as the clock stands still,
// there is only one tick, and a tick of the default layout has 4,096 IDs.
func ExampleClockFunc() {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	gen, err := snowflake.New(7, &snowflake.Options{
		Clock: snowflake.ClockFunc(func() time.Time { return now }),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ids := make([]snowflake.ID, 5000)
	n, err := gen.Fill(context.Background(), ids)
	fmt.Println(ids[0], n, err)

	now = now.Add(time.Second)
	id, err := gen.NextID()
	fmt.Println(id, err)
	// Output:
	// 117594862387228672 4096 snowflake: clock stands still, or runs at less than half of its speed: it reads 2026-11-21T12:00:00.000Z, 1ms before 2026-11-21T12:00:00.001Z
	// 117594866581532672 <nil>
}

// ended is a lease whose span has ended, for a test of what a program does then.
type ended struct{}

func (ended) Grant() snowflake.Grant {
	noon := noonClock.Now()
	return snowflake.Grant{Worker: 7, From: noon.Add(-time.Hour), To: noon}
}

func ExampleLease() {
	gen, err := snowflake.NewLeased(ended{}, &snowflake.Options{Clock: noonClock})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = gen.NextID()
	fmt.Println(errors.Is(err, snowflake.ErrLeaseExpired), err)
	// Output:
	// true snowflake: lease expired: worker 7 may stamp IDs before 2026-11-21T12:00:00.000Z, the next would be at 2026-11-21T12:00:00.000Z
}

func ExampleGenerator_Fill() {
	gen, err := snowflake.New(7, &snowflake.Options{Clock: noonClock, BorrowAhead: time.Second})
	if err != nil {
		fmt.Println(err)
		return
	}
	ids := make([]snowflake.ID, 100_000)
	n, err := gen.Fill(context.Background(), ids)
	fmt.Println(n, err)
	fmt.Println(gen.Decode(ids[n-1]))
	// Output:
	// 100000 <nil>
	// time=2026-11-21T12:00:00.024Z worker=7 sequence=1695
}

func ExampleGenerator_NextIDContext() {
	gen, err := snowflake.New(7, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	id, err := gen.NextIDContext(ctx)
	fmt.Println(id > 0, err)
	// Output: true <nil>
}

func ExampleLayout_Range() {
	from := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	lo, hi, err := snowflake.DefaultLayout().Range(from, from.AddDate(0, 0, 1))
	fmt.Printf("WHERE id >= %d AND id < %d, %v\n", lo, hi, err)
	// Output: WHERE id >= 117413668454400000 AND id < 117776056320000000, <nil>
}

func ExampleLayout_Decode() {
	tweet, err := snowflake.ParseID("1541815603606036480")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(layouts.Twitter().Decode(tweet))
	// Output: time=2022-06-28T16:07:40.105Z datacenter=11 worker=26 sequence=0
}

func ExampleClockBackwardError() {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	clock := snowflake.ClockFunc(func() time.Time { return now })
	gen, err := snowflake.New(7, &snowflake.Options{Clock: clock})
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := gen.NextID(); err != nil {
		fmt.Println(err)
		return
	}
	now = now.Add(-time.Hour) // the clock is set back
	_, err = gen.NextID()
	var back *snowflake.ClockBackwardError
	fmt.Println(errors.As(err, &back), back.By())
	fmt.Println(err)
	// Output:
	// true 1h0m0s
	// snowflake: clock went backward: it reads 2026-11-21T11:00:00.000Z, 1h0m0s behind 2026-11-21T12:00:00.000Z
}

// This policy waits for a small step back of the clock, and changes the clock sequence for a large
// one.
func ExampleBackwardFunc() {
	policy := func(b snowflake.Backward) snowflake.Action {
		switch {
		case b.By() <= 5*time.Millisecond:
			return snowflake.ActionWait
		case b.CanBump:
			return snowflake.ActionBump
		}
		return snowflake.ActionFail
	}
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	gen, err := snowflake.New(7, &snowflake.Options{
		Layout:     snowflake.ClockSeqLayout(),
		Clock:      snowflake.ClockFunc(func() time.Time { return now }),
		OnBackward: snowflake.BackwardFunc(policy),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 2 {
		id, err := gen.NextID()
		fmt.Println(gen.Decode(id), err)
		now = now.Add(-time.Hour)
	}
	// Output:
	// time=2026-11-21T12:00:00.000Z worker=7 sequence=0 <nil>
	// time=2026-11-21T11:00:00.000Z clockSeq=1 worker=7 sequence=0 <nil>
}

func ExampleID_MarshalText() {
	order := struct {
		ID snowflake.ID `json:"id"`
	}{117594862387228672}
	b, err := json.Marshal(order)
	fmt.Println(string(b), err)
	// Output: {"id":"117594862387228672"} <nil>
}

func ExampleID_Base32() {
	id := snowflake.ID(117594862387228672)
	fmt.Println(id.Base32(), id.Base58(), id.Base62())
	back, err := snowflake.ParseBase32(id.Base32())
	fmt.Println(back, err)
	// Output:
	// 038E7WY000W00 gQfVCutkzA 08gaJUpza8u
	// 117594862387228672 <nil>
}

// The next process issues only IDs that are greater than the IDs stored so far.
func ExampleOptions_after() {
	var max snowflake.ID = 117594862387228672 // SELECT max(id) FROM orders
	gen, err := snowflake.New(7, &snowflake.Options{Clock: noonClock, After: max})
	if err != nil {
		fmt.Println(err)
		return
	}
	id, err := gen.NextID()
	fmt.Println(id, id > max, err)
	// Output: 117594862387228673 true <nil>
}

// May the default layout follow the IDs that bwmarrin's library has issued?
func ExampleLayout_Follows() {
	const last = 2064000000000000000 // SELECT max(id)
	err := snowflake.DefaultLayout().Follows(layouts.Bwmarrin(), last)
	fmt.Println(err)

	early := snowflake.DefaultLayout()
	early.Epoch = layouts.Twitter().Epoch
	fmt.Println(early.Follows(layouts.Bwmarrin(), last))
	// Output:
	// snowflake: layouts overlap: the old layout has issued 2064000000000000000, stamped 2026-06-08T15:02:01.922Z; the first ID of the new layout, stamped 2026-06-08T15:02:01.923Z, is 57484286562926592
	// <nil>
}
