package snowflake

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// What a call does next, if the clock is at tick 10 and the next ID is in that tick.
func TestDecide(t *testing.T) {
	now := situation{place: place{tick: 10, left: 1}, last: 10, limit: 10, near: 60}
	for name, test := range map[string]struct {
		change func(*situation)
		want   step
	}{
		"the tick has IDs":                         {func(s *situation) {}, stepIssue},
		"the tick is spent":                        {func(s *situation) { s.tick = 11 }, stepWait},
		"its own tick has begun":                   {func(s *situation) { s.held = true }, stepIssue},
		"its own tick has not begun":               {func(s *situation) { s.held, s.tick = true, 11 }, stepWait},
		"its own tick has begun, last is ahead":    {func(s *situation) { s.held, s.last = true, 12 }, stepIssue},
		"the clock went back":                      {func(s *situation) { s.limit = 9 }, stepAsk},
		"the clock went back, and is waited for":   {func(s *situation) { s.limit, s.agree = 9, true }, stepWait},
		"the clock went back behind its own tick":  {func(s *situation) { s.held, s.limit = true, 9 }, stepAsk},
		"the clock is slow":                        {func(s *situation) { s.held, s.tick, s.slow = true, 11, true }, stepAsk},
		"the clock was slow, and has caught up":    {func(s *situation) { s.held, s.slow = true, true }, stepIssue},
		"the next IDs are near":                    {func(s *situation) { s.tick = 60 }, stepWait},
		"the next IDs are far":                     {func(s *situation) { s.tick = 61 }, stepAsk},
		"its own IDs are far":                      {func(s *situation) { s.held, s.tick = true, 61 }, stepWait},
		"no time is left":                          {func(s *situation) { s.left = 0 }, stepExhaust},
		"no time is left, and the clock went back": {func(s *situation) { s.left, s.limit = 0, 9 }, stepAsk},
		"the lease does not grant the tick":        {func(s *situation) { s.over = true }, stepExtend},
		"nor the next tick":                        {func(s *situation) { s.tick, s.over = 11, true }, stepExtend},
	} {
		s := now
		test.change(&s)
		assert.Equal(t, test.want, s.decide(), name)
	}
}

// A call looks at the clock when it has waited for 50 ms, and each time that it has
// waited for twice as long. The clock is slow if it ran at less than half of its speed.
func TestWatch(t *testing.T) {
	ms := time.Millisecond
	var w watch
	assert.Equal(t, maxStall, w.patience(time.Hour))
	w.begin(instant{tick: 5}, time.Hour, false)
	assert.Equal(t, 30*ms, w.patience(time.Hour+20*ms))
	assert.Equal(t, 70*ms, w.patience(time.Hour+70*ms))
	for _, test := range []struct {
		waited      time.Duration
		tick        int64
		slow, still bool
	}{{49 * ms, 5, false, false}, {50 * ms, 5, true, true}, {50 * ms, 29, true, true}, {50 * ms, 30, false, false}, {50 * ms, 4, true, false}} {
		ended := w
		slept := ended.end(small, instant{tick: test.tick}, time.Hour+test.waited)
		assert.Equal(t, test.waited, slept)
		assert.Equal(t, []bool{test.slow, test.still}, []bool{ended.slow, ended.still}, "%+v", test)
	}
}

// In all, a call waits for a clock for twice the first wait, or 50 ms.
func TestPatience(t *testing.T) {
	ms := time.Millisecond
	var p patience
	assert.True(t, p.allows(20*ms, time.Hour))
	assert.True(t, p.allows(30*ms, time.Hour+20*ms))
	assert.False(t, p.allows(31*ms, time.Hour+20*ms))
	p = patience{}
	assert.True(t, p.allows(time.Second, 0))
	assert.True(t, p.allows(time.Second, time.Second))
	assert.False(t, p.allows(time.Second+2, time.Second))
}
