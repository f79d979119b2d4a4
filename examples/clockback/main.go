// The clockback program sets a clock back, and shows what each policy does.
//
// The clock is right at first, then someone sets it too far ahead, and then it
// is set back. After that it reads times at which IDs were already stamped.
package main

import (
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/seed-5394e6b1/snowflake"
)

func main() {
	type options = snowflake.Options
	wait := snowflake.WaitPolicy(500 * time.Millisecond)
	seq := snowflake.ClockSeqLayout()

	show("FailPolicy", time.Hour, options{OnBackward: snowflake.FailPolicy()})
	show("WaitPolicy", 200*time.Millisecond, options{OnBackward: wait})
	show("WaitPolicy", time.Hour, options{OnBackward: wait})
	show("ClockSeqPolicy", time.Hour, options{OnBackward: snowflake.ClockSeqPolicy(), Layout: seq})
	show("RewindPolicy", time.Minute, options{OnBackward: snowflake.RewindPolicy(), Layout: snowflake.JSSafeLayout(), RewindTicks: 120})
	show("decide", 200*time.Millisecond, options{OnBackward: snowflake.BackwardFunc(decide), Layout: seq})
	show("decide", time.Hour, options{OnBackward: snowflake.BackwardFunc(decide), Layout: seq})
}

// decide is a policy that prints its argument. If the wait is short, it waits and
// keeps the order of IDs. If the wait would be long, it gives up the order.
func decide(b snowflake.Backward) snowflake.Action {
	fmt.Printf("  decide: the clock is %v behind, can bump: %v\n", b.By().Round(time.Millisecond), b.CanBump)
	switch {
	case b.By() <= 500*time.Millisecond:
		return snowflake.ActionWait
	case b.CanBump:
		return snowflake.ActionBump
	default:
		return snowflake.ActionFail
	}
}

func show(policy string, by time.Duration, opts snowflake.Options) {
	fmt.Printf("%s, clock set back by %v\n", policy, by)
	// The clock is real time plus an offset. While the clock is right, it is noon.
	right := time.Until(time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC))
	offset := right
	opts.Clock = snowflake.ClockFunc(func() time.Time { return time.Now().Add(offset) })
	g, err := snowflake.New(1, &opts)
	if err != nil {
		log.Fatal(err)
	}
	for i, name := range []string{"right:", "ahead:", "back:"} {
		offset = []time.Duration{right, right + by, right}[i]
		id, err := g.NextID()
		var back *snowflake.ClockBackwardError
		if errors.As(err, &back) {
			fmt.Printf("  %-6s no ID, the clock is %v behind\n", name, back.By().Round(time.Millisecond))
		} else if err != nil {
			log.Fatal(err)
		} else {
			fmt.Printf("  %-6s %v  %v\n", name, id, g.Decode(id))
		}
	}
	s := g.Stats()
	fmt.Printf("  waited %v, bumps %d, rewinds %d\n", s.Waited.Round(time.Millisecond), s.Bumps, s.Rewinds)
}
