//go:build go1.25

package lease

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake/lease/internal/machine"
)

// kernelSays lets the kernel say c for the rest of the test.
func kernelSays(t *testing.T, c ClockSync) {
	was := machine.KernelClock
	machine.KernelClock = func() machine.Sync { return machine.Sync(c) }
	t.Cleanup(func() { machine.KernelClock = was })
}

func TestUnsynchronizedClockIsRefusedOnlyOnRequest(t *testing.T) {
	for name, test := range map[string]struct {
		says    ClockSync
		limit   time.Duration
		refused string
	}{
		"right":                {says: ClockSync{true, true, 20 * ms}},
		"right enough":         {says: ClockSync{true, true, 20 * ms}, limit: 20 * ms},
		"not right enough":     {says: ClockSync{true, true, 21 * ms}, limit: 20 * ms, refused: "synchronized, off by 21ms at most, but MaxClockError is 20ms"},
		"far off":              {says: ClockSync{true, true, 1001 * ms}},
		"never set":            {says: ClockSync{Known: true}},
		"never set, refused":   {says: ClockSync{Known: true}, limit: time.Hour, refused: "it is not synchronized"},
		"another system":       {},
		"another system, too":  {limit: time.Hour, refused: "it is unknown"},
		"a limit that is none": {says: ClockSync{true, true, 0}, limit: -1, refused: "MaxClockError -1ns is negative"},
	} {
		t.Run(name, func(t *testing.T) {
			kernelSays(t, test.says)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if test.says.Known && test.refused != "" { // it waits until the clock is right
				time.AfterFunc(50*ms, cancel)
			}
			l, err := Acquire(ctx, newMemory(), &Options{NewStore: true, MaxClockError: test.limit, Logger: slog.New(slog.DiscardHandler)})
			if test.refused != "" {
				require.ErrorContains(t, err, test.refused)
				return
			}
			require.NoError(t, err)
			defer l.Release(t.Context())
			assert.Equal(t, test.says, l.Stats().Clock)
		})
	}
}

func TestMaxClockErrorIsOfTheKernelsClock(t *testing.T) {
	kernelSays(t, ClockSync{true, true, 0})
	_, err := Acquire(t.Context(), newMemory(), &Options{NewStore: true, Clock: clockAt(0), MaxClockError: time.Second})
	require.ErrorIs(t, err, ErrInvalidOptions)
	l, err := Acquire(t.Context(), newMemory(), &Options{NewStore: true, Clock: clockAt(0)})
	require.NoError(t, err)
	defer l.Release(t.Context())
	assert.False(t, l.Stats().Clock.Known)
}
