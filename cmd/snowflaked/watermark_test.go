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
	"github.com/seed-5394e6b1/snowflake/internal/command"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// The watermark of the store is below the next ID, rises, and names a holder that keeps it back.
// Without --watermark, nothing is read until a client asks.
func TestWatermarkOfTheStore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	reading := start(t, nil, "--store", "file:"+dir, "--watermark", "1s")
	quiet := start(t, nil, "--store", "file:"+dir)
	ask := func(p *instance, path string) (header, text string) {
		t.Helper()
		status, text, h := get(t, http.DefaultClient, p.url+path)
		require.Equal(t, http.StatusOK, status, text)
		return h.Get("Snowflake-Watermark"), text
	}
	id := func(text string) snowflake.ID {
		t.Helper()
		line, _, _ := strings.Cut(text, "\n")
		id, err := snowflake.ParseID(line)
		require.NoError(t, err)
		return id
	}
	has := func(p *instance) bool {
		_, metrics := ask(p, "/metrics")
		return strings.Contains(metrics, "\nsnowflake_store_watermark_age_seconds ")
	}
	await(t, "header", func() bool { header, _ := ask(reading, "/id"); return header != "" })
	first, next := ask(reading, "/id")
	require.Greater(t, id(next), id(first))
	assert.True(t, has(reading))
	if header, _ := ask(quiet, "/id"); header != "" || has(quiet) {
		t.Error("the watermark was read, and nobody has asked")
	}
	_, mark := ask(quiet, "/watermark")
	header, next := ask(quiet, "/id")
	if id(header) != id(mark) || id(next) <= id(mark) || id(mark) < id(first) || !has(quiet) {
		t.Errorf("watermark %s, header %s, next ID %s", mark, header, next)
	}
	await(t, "a later watermark", func() bool { _, mark := ask(quiet, "/watermark"); return id(mark) > id(first) })
	// A holder without a generator may stamp any time since it began, which is after this
	// watermark.
	l, err := lease.Acquire(t.Context(), lease.File(dir),
		&lease.Options{Owner: "idle-1", Window: 500 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	await(t, "the holder", func() bool { _, text := ask(quiet, "/watermark"); return strings.Contains(text, "owner=idle-1") })
	await(t, "a higher watermark", func() bool { header, _ := ask(reading, "/id"); return id(header) > id(first) })
	read := func(status int, args ...string) (text, log string) {
		t.Helper()
		var out, errs bytes.Buffer
		assert.Equal(t, status, called(t.Context(),
			append([]string{"watermark", "--store", "file:" + dir}, args...), os.LookupEnv, &out, &errs), &errs)
		return out.String(), errs.String()
	}
	text, log := read(command.Failure)
	assert.GreaterOrEqual(t, id(text), id(first))
	assert.Contains(t, log, "idle-1")
	text, _ = read(command.Failure, "--json")
	keys := func(object string) (all []string) {
		t.Helper()
		var answer map[string]any
		require.NoError(t, json.Unmarshal([]byte(object), &answer), object)
		held, _ := answer["heldBy"].(map[string]any)
		return slices.Concat(slices.Sorted(maps.Keys(answer)), slices.Sorted(maps.Keys(held)))
	}
	_, served, _ := get(t, http.DefaultClient, quiet.url+"/watermark", "Accept", "application/json")
	require.Equal(t, keys(served), keys(text), "%s is unlike the server's %s", text, served)
	assert.Contains(t, text, `"heldBy":{"worker":`)
	_, log = read(command.Usage, "1")
	assert.Contains(t, log, "watermark takes no arguments")
	require.NoError(t, l.Release(context.Background()))
	await(t, "the end of its window", func() bool { _, text := ask(quiet, "/watermark"); return !strings.Contains(text, "idle-1") })
	text, log = read(command.OK)
	require.Greater(t, id(text), id(first))
	assert.Empty(t, log)
}
