package main

import (
	"bytes"
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake/internal/command"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// After init no first start waits. Init may be repeated, and changes nothing then.
func TestInitMakesTheStoreOnce(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "leases.db")
	run := func(want int, args ...string) (said, log string) {
		var out, errs bytes.Buffer
		assert.Equal(t, want, called(t.Context(), append([]string{"init"}, args...),
			func(string) string { return "" }, &out, &errs), &errs)
		return out.String(), errs.String()
	}
	said, _ := run(command.OK, "--store", "sqlite:"+file, "--layout", "43/8/12")
	assert.Contains(t, said, "the store was initialized")
	said, _ = run(command.OK, "--store", "sqlite:"+file, "--layout", "43/8/12")
	assert.Contains(t, said, "nothing was changed")

	store, closeStore, err := openURL(t.Context(), "sqlite:"+file)
	require.NoError(t, err)
	defer closeStore()
	// A new store without init would wait for longer.
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	l, err := lease.Acquire(ctx, store, &lease.Options{Layout: layoutOf(t, "43/8/12")})
	require.NoError(t, err)
	require.NoError(t, l.Release(t.Context()))

	_, log := run(command.Usage, "--store", "sqlite:"+file, "--layout", "43")
	assert.Contains(t, log, "--layout")
	_, log = run(command.Usage, "--store", "sqlite:"+file, "again")
	assert.Contains(t, log, "init takes no arguments")
}
