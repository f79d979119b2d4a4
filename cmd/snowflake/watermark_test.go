package main

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease"
)

func TestWatermarkIsBelowTheNextID(t *testing.T) {
	dir := t.TempDir()
	l, err := lease.Acquire(t.Context(), lease.File(dir), nil)
	require.NoError(t, err)
	defer l.Release(context.Background())
	g, err := snowflake.NewLeased(l, nil)
	require.NoError(t, err)
	out, errs, code := runCLI("watermark", "--dir", dir)
	require.Zero(t, code, errs)
	id, err := snowflake.ParseID(out[:len(out)-1])
	require.NoError(t, err)
	next, err := g.NextID()
	require.NoError(t, err)
	assert.Positive(t, id)
	assert.Greater(t, next, id)
	_, errs, code = runCLI("watermark", "--dir", t.TempDir())
	assert.Equal(t, 1, code)
	assert.Contains(t, errs, "the store has no entries")
}

// A holder without a generator may stamp any time since it began. The JSON is the server's.
func TestWatermarkNamesTheHolderThatKeepsItBack(t *testing.T) {
	dir := t.TempDir()
	l, err := lease.Acquire(t.Context(), lease.File(dir), &lease.Options{Owner: "idle-1", Window: 300 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	defer l.Release(context.Background())
	time.Sleep(700 * time.Millisecond)
	out, errs, code := runCLI("watermark", "--json", "--dir", dir)
	assert.Equal(t, 1, code)
	assert.Contains(t, errs, "idle-1")
	assert.Regexp(t, `^\{"id":"\d+","held":\{"worker":\d+,"owner":"idle-1","host":".+","pid":\d+,"behind":"\d+\.\d\d\ds","why":".+"\}\}\n$`, out)
}
