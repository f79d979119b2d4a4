//go:build unix

package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/texts"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// The metrics count the worker IDs of the whole fleet, and what the store has lost.
func TestWorkerIDsAreCounted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := start(t, nil, "--store", "file:"+dir, "--layout", "43/8/12", "--fleet", "blue")
	other, _ := hold(t, lease.File(dir), lease.Options{Layout: layoutOf(t, "43/8/12")})
	shows := func(lines ...string) {
		t.Helper()
		await(t, "metrics", func() bool {
			_, metrics, _ := get(t, http.DefaultClient, p.url+"/metrics")
			return !slices.ContainsFunc(lines, func(line string) bool { return !strings.Contains(metrics, "\n"+line) })
		})
	}
	shows(`snowflake_store_workers{state="held"} 2`, `snowflake_store_workers{state="unused"} 254`,
		`snowflake_store_workers{state="dead"} 0`,
		`snowflake_store_workers{state="lost"} 0`, `snowflake_worker_id{fleet="blue"} `,
		"snowflake_server_connections ", "snowflake_server_in_flight_limit 1024")
	require.NoError(t, other.Release(t.Context()))
	require.NoError(t, os.Remove(filepath.Join(dir, "worker", fmt.Sprint(other.Worker()))))
	shows(`snowflake_store_workers{state="held"} 1`, `snowflake_store_workers{state="lost"} 1`)
}

func layoutOf(t *testing.T, text string) snowflake.Layout {
	t.Helper()
	l, err := texts.Layout(text)
	require.NoError(t, err)
	return l
}
