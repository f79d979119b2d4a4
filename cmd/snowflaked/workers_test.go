//go:build go1.25

package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease"
)

func TestTable(t *testing.T) {
	noon := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	holder := func(worker int, state lease.State) lease.Holder {
		return lease.Holder{
			Worker: worker, State: state, Owner: "web-7", Host: "node-1", PID: 4711,
			Layout: snowflake.ClockSeqLayout(), To: noon.Add(3 * time.Second),
		}
	}
	live, spent, strange, other := holder(0, lease.StateHeld), holder(10, lease.StateSpent), holder(127, lease.StateDead),
		holder(3, lease.StateFree)
	live.To, live.ClockSeq = noon.Add(time.Hour).In(time.FixedZone("", 3600)), 1
	spent.Host, spent.PID = "", 0
	strange.Owner, strange.Host = "a b", "x\ny"
	other.Layout = snowflake.DefaultLayout()

	var b strings.Builder
	table(&b, []lease.Holder{live, spent, strange, other})
	assert.Equal(t, `layout: 41/3/7/12@2026-01-01,1ms
worker  state  until                     clockSeq  pid   host    owner
0       held   2026-06-01T13:00:00.000Z  1         4711  node-1  web-7
10      spent  2026-06-01T12:00:03.000Z  0         0     ""      web-7
127     dead   2026-06-01T12:00:03.000Z  0         4711  "x\ny"  "a b"
layout: 41/10/12@2026-01-01,1ms
worker  state  until                     clockSeq  pid   host    owner
3       free   2026-06-01T12:00:03.000Z  0         4711  node-1  web-7
`, b.String())
}
