package snowflake_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/seed-5394e6b1/snowflake"
)

var sentinels = []error{
	snowflake.ErrClockBackward, snowflake.ErrTimeExhausted, snowflake.ErrBeforeEpoch,
	snowflake.ErrLeaseExpired, snowflake.ErrInvalidID, snowflake.ErrInvalidLayout,
	snowflake.ErrWorkerRange, snowflake.ErrInvalidOptions, snowflake.ErrInvalidRange, snowflake.ErrOverlap,
}

func TestSentinelsAreDistinctAndNameThePackage(t *testing.T) {
	seen := map[string]bool{}
	for i, err := range sentinels {
		assert.Regexp(t, `^snowflake: \S`, err.Error())
		assert.False(t, seen[err.Error()], "%v is there twice", err)
		seen[err.Error()] = true
		for j, other := range sentinels {
			assert.Equal(t, i == j, errors.Is(err, other), "%v is %v", err, other)
		}
	}
}

func TestTypedErrorsNameValueAndLimitAndMatchOneSentinel(t *testing.T) {
	at := time.Date(2026, 11, 21, 8, 30, 0, 0, time.FixedZone("Beijing", 8*60*60))
	behind := func(b snowflake.Backward) error { return &snowflake.ClockBackwardError{Backward: b} }
	field := func(name string, value, max int) error {
		return &snowflake.FieldRangeError{Field: name, Value: value, Max: max}
	}
	for _, tt := range []struct {
		is, err error
		text    string
	}{
		{snowflake.ErrClockBackward, behind(snowflake.Backward{Last: at, Now: at.Add(-1500 * time.Millisecond)}),
			"clock went backward: it reads 2026-11-21T00:29:58.500Z, 1.5s behind 2026-11-21T00:30:00.000Z"},
		{snowflake.ErrClockBackward, behind(snowflake.Backward{Last: at.Add(time.Microsecond), Now: at}),
			"clock went backward: it reads 2026-11-21T00:30:00.000Z, 1µs behind 2026-11-21T00:30:00.000001Z"},
		{snowflake.ErrClockBackward, behind(snowflake.Backward{Last: at.Add(time.Millisecond), Now: at, Stalled: true}),
			"clock stands still, or runs at less than half of its speed: it reads 2026-11-21T00:30:00.000Z, 1ms before 2026-11-21T00:30:00.001Z"},
		{snowflake.ErrWorkerRange, field("worker", 1024, 1023), "worker 1024 does not fit the layout, which has room for 0 to 1023"},
		{snowflake.ErrWorkerRange, field("worker", 1, 0), "worker 1 does not fit the layout, which has no bits for it: only 0 fits"},
		{snowflake.ErrWorkerRange, field("datacenter", -1, 31), "datacenter -1 does not fit the layout, which has room for 0 to 31"},
		{snowflake.ErrInvalidID, field("clock sequence", 8, 7), "clock sequence 8 does not fit the layout, which has room for 0 to 7"},
		{snowflake.ErrInvalidID, field("sequence", 4096, 4095), "sequence 4096 does not fit the layout, which has room for 0 to 4095"},
		{snowflake.ErrLeaseExpired, &snowflake.LeaseExpiredError{Worker: 7, NotAfter: at, Time: at.Add(time.Millisecond)},
			"lease expired: worker 7 may stamp IDs before 2026-11-21T00:30:00.000Z, the next would be at 2026-11-21T00:30:00.001Z"},
		{snowflake.ErrLeaseExpired, &snowflake.LeaseExpiredError{Worker: 7, NotAfter: at, Time: at.Add(-time.Millisecond)},
			"lease expired: worker 7 stamped its last ID before 2026-11-21T00:30:00.000Z"},
	} {
		assert.EqualError(t, tt.err, "snowflake: "+tt.text)
		for _, sentinel := range sentinels {
			assert.Equal(t, sentinel == tt.is, errors.Is(fmt.Errorf("caller: %w", tt.err), sentinel), "%v: %v", tt.text, sentinel)
		}
	}
}
