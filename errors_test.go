package snowflake_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/layouts"
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
	tests := []struct {
		err  error
		is   error
		text string
	}{
		{
			&snowflake.ClockBackwardError{Backward: snowflake.Backward{Last: at, Now: at.Add(-1500 * time.Millisecond)}},
			snowflake.ErrClockBackward,
			"snowflake: clock went backward: it reads 2026-11-21T00:29:58.500Z, 1.5s behind 2026-11-21T00:30:00.000Z",
		},
		{
			&snowflake.ClockBackwardError{Backward: snowflake.Backward{Last: at.Add(time.Microsecond), Now: at}},
			snowflake.ErrClockBackward,
			"snowflake: clock went backward: it reads 2026-11-21T00:30:00.000Z, 1µs behind 2026-11-21T00:30:00.000001Z",
		},
		{
			&snowflake.FieldRangeError{Field: "worker", Value: 1024, Max: 1023},
			snowflake.ErrWorkerRange,
			"snowflake: worker 1024 does not fit the layout, which has room for 0 to 1023",
		},
		{
			&snowflake.FieldRangeError{Field: "datacenter", Value: -1, Max: 31},
			snowflake.ErrWorkerRange,
			"snowflake: datacenter -1 does not fit the layout, which has room for 0 to 31",
		},
		{
			&snowflake.FieldRangeError{Field: "clock sequence", Value: 8, Max: 7},
			snowflake.ErrInvalidID,
			"snowflake: clock sequence 8 does not fit the layout, which has room for 0 to 7",
		},
		{
			&snowflake.FieldRangeError{Field: "sequence", Value: 4096, Max: 4095},
			snowflake.ErrInvalidID,
			"snowflake: sequence 4096 does not fit the layout, which has room for 0 to 4095",
		},
		{
			&snowflake.LeaseExpiredError{Worker: 7, NotAfter: at, Time: at.Add(time.Millisecond)},
			snowflake.ErrLeaseExpired,
			"snowflake: lease expired: worker 7 may stamp IDs before 2026-11-21T00:30:00.000Z, the next would be at 2026-11-21T00:30:00.001Z",
		},
		{
			&snowflake.LeaseExpiredError{Worker: 7, NotAfter: at, Time: at.Add(-time.Millisecond)},
			snowflake.ErrLeaseExpired,
			"snowflake: lease expired: worker 7 stamped its last ID before 2026-11-21T00:30:00.000Z",
		},
	}
	for _, tt := range tests {
		t.Run(tt.text, func(t *testing.T) {
			assert.EqualError(t, tt.err, tt.text)
			for _, sentinel := range sentinels {
				assert.Equal(t, sentinel == tt.is, errors.Is(fmt.Errorf("caller: %w", tt.err), sentinel), "%v", sentinel)
			}
		})
	}
}

// errors.As finds a typed error, with its fields, through any wrapping.
func TestTypedErrorsAreFoundWithAs(t *testing.T) {
	_, err := layouts.Twitter().Encode(snowflake.Parts{Time: snowflake.TwitterEpoch.Time(), Datacenter: 32})
	var field *snowflake.FieldRangeError
	require.ErrorAs(t, fmt.Errorf("caller: %w", err), &field)
	assert.Equal(t, snowflake.FieldRangeError{Field: "datacenter", Value: 32, Max: 31}, *field)

	at := time.Unix(1800000000, 0)
	var backward *snowflake.ClockBackwardError
	require.ErrorAs(t, fmt.Errorf("caller: %w", &snowflake.ClockBackwardError{
		Backward: snowflake.Backward{Last: at, Now: at.Add(-time.Hour), CanBump: true},
	}), &backward)
	assert.Equal(t, time.Hour, backward.By())
	assert.True(t, backward.CanBump)
	assert.False(t, backward.CanRewind)
}
