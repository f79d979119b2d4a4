package main

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease"
)

func TestGenerateRefusesAWorkerIDThatIsHeld(t *testing.T) {
	dir := t.TempDir()
	generate := func(worker string, more ...string) (string, int) {
		out, errs, status := runCLI(append([]string{"sql", "postgres", "--generate", "--worker", worker, "--store", dir}, more...)...)
		require.Equal(t, status == exitOK, out != "")
		return errs, status
	}
	errs, status := generate("1023")
	require.Zero(t, status)
	require.Contains(t, errs, "is it the right store?")

	acquire := func(worker int, reuse lease.Reuse) *lease.Lease {
		l, err := lease.Acquire(t.Context(), lease.File(dir),
			&lease.Options{NewStore: true, First: worker, Count: 1, Owner: "web", Reuse: reuse})
		require.NoError(t, err)
		t.Cleanup(func() { _ = l.Release(context.Background()) })
		return l
	}
	acquire(3, lease.ReuseAny)
	require.NoError(t, acquire(4, lease.ReuseKeep).Release(t.Context()))
	require.NoError(t, acquire(5, lease.ReuseAny).Release(t.Context()))
	for worker, says := range map[string]string{
		"3": "worker 3 is held by web", "4": "worker 4 is kept for web",
		"5": "worker 5 is free from", // not yet: it is always noon of an earlier day
	} {
		errs, status = generate(worker)
		require.Equal(t, exitFailure, status)
		require.Contains(t, errs, says)
	}
	ago := snowflake.ClockFunc(func() time.Time { return time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC) })
	l, err := lease.Acquire(t.Context(), lease.File(dir), &lease.Options{First: 8, Count: 1, Owner: "web", Reuse: lease.ReuseKeep, LocalCopy: t.TempDir(), Clock: ago})
	require.NoError(t, err)
	require.NoError(t, l.Release(t.Context()))
	require.NoError(t, lease.Retire(t.Context(), lease.File(dir), 8))
	errs, status = generate("8")
	require.Equal(t, exitFailure, status)
	require.Contains(t, errs, "worker 8 is spent, and was held by web", "its directory may come back")
	errs, status = generate("6")
	require.Zero(t, status)
	require.Equal(t, "snowflake: Keep worker 6 out of the leases' range: lease.Options{First: 7, Count: 1017} in every process.\n", errs)
	errs, status = generate("6", "--layout", "jssafe")
	require.Equal(t, exitFailure, status)
	require.Contains(t, errs, "the leases have the layout 41/10/12@2026-01-01,1ms, and not 33/4/15@2026-01-01,1s")
	dir += "/none"
	_, status = generate("6")
	require.Equal(t, exitFailure, status)
}
