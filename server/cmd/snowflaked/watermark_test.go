//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// The watermark of the store is below the next ID, rises, and names a holder that keeps it back. Without -watermark, nothing is
// read until a client asks.
func TestWatermarkOfTheStore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	reading := start(t, nil, "-store", "file:"+dir, "-watermark", "1s")
	quiet := start(t, nil, "-store", "file:"+dir)
	ask := func(p *instance, path string) (header, text string) {
		t.Helper()
		resp, text, err := get(t, http.DefaultClient, p.url+path)
		require.NoError(t, err, "%v %v %v", path, resp, text)
		require.Equal(t, http.StatusOK, resp.StatusCode, "%v %v %v", path, resp, text)
		return resp.Header.Get("Snowflake-Watermark"), text
	}
	id := func(text string) snowflake.ID {
		t.Helper()
		line, _, _ := strings.Cut(text, "\n")
		id, err := snowflake.ParseID(line)
		require.NoError(t, err)
		return id
	}
	await := func(what string, is func() bool) {
		t.Helper()
		for begun := time.Now(); !is(); time.Sleep(10 * time.Millisecond) {
			if time.Since(begun) > patience {
				t.Fatal("it does not come:", what)
			}
		}
	}
	has := func(p *instance) bool {
		_, metrics := ask(p, "/metrics")
		return strings.Contains(metrics, "\nsnowflake_store_watermark_age_seconds ")
	}
	await("header", func() bool { header, _ := ask(reading, "/id"); return header != "" })
	first, next := ask(reading, "/id")
	require.Greater(t, id(next), id(first), "the watermark %s is not below %s, or has no metric", first, next)
	assert.True(t, has(reading), "the watermark %s is not below %s, or has no metric", first, next)
	await("a higher watermark", func() bool { header, _ := ask(reading, "/id"); return id(header) > id(first) })
	if header, _ := ask(quiet, "/id"); header != "" || has(quiet) {
		t.Error("the watermark was read, and nobody has asked")
	}
	_, mark := ask(quiet, "/watermark")
	header, next := ask(quiet, "/id")
	if id(header) != id(mark) || id(next) <= id(mark) || id(mark) < id(first) || !has(quiet) {
		t.Errorf("watermark %s, header %s, next ID %s", mark, header, next)
	}
	// A holder without a generator may stamp any time since it began.
	l, err := lease.Acquire(t.Context(), lease.File(dir), &lease.Options{Owner: "idle-1", Window: 500 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	await("the holder", func() bool { _, text := ask(quiet, "/watermark"); return strings.Contains(text, "owner=idle-1") })
	await("the log", func() bool { return reading.logged("the watermark stands still") != nil })
	command := func(status int, args ...string) (text, log string) {
		t.Helper()
		var out, errs bytes.Buffer
		if got := command(t.Context(), append([]string{"watermark", "-store", "file:" + dir}, args...), os.Getenv, &out, &errs); got != status {
			t.Errorf("watermark %s: status %d, %s", args, got, &errs)
		}
		return out.String(), errs.String()
	}
	if text, log := command(exitFailure); id(text) < id(first) || !strings.Contains(log, "idle-1") {
		t.Errorf("%s%s", text, log)
	}
	text, _ := command(exitFailure, "-json")
	keys := func(object string) (all []string) {
		t.Helper()
		var answer map[string]any
		require.NoError(t, json.Unmarshal([]byte(object), &answer), object)
		held, _ := answer["held"].(map[string]any)
		return slices.Concat(slices.Sorted(maps.Keys(answer)), slices.Sorted(maps.Keys(held)))
	}
	_, served, err := get(t, http.DefaultClient, quiet.url+"/watermark", "Accept", "application/json")
	require.NoError(t, err, "%s is unlike the server's %s, %v", text, served, err)
	require.Equal(t, keys(served), keys(text), "%s is unlike the server's %s, %v", text, served, err)
	assert.Contains(t, text, `"held":{"worker":`, "%s is unlike the server's %s, %v", text, served, err)
	_, log := command(exitUsage, "1")
	assert.Contains(t, log, "watermark takes no arguments")
	require.NoError(t, l.Release(context.Background()))
	await("the log", func() bool { return reading.logged("the watermark rises again") != nil })
	text, log = command(exitOK)
	require.Greater(t, id(text), id(first), "%s%s", text, log)
	assert.Empty(t, log, "%s%s", text, log)
}
