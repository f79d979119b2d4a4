package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake/internal/command"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// A worker ID that is leased, or was, is not for a column's default, whatever the store is.
func TestGenerateRefusesAWorkerIDThatWasLeased(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "leases.db")
	_, log, status := runCLI("sql", "--generate", "--worker", "1", "--store", "sqlite:"+file)
	require.Equal(t, command.Failure, status)
	require.Contains(t, log, "there is no store at sqlite:")
	require.NoFileExists(t, file)
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for _, url := range []string{"sqlite:" + file, "file:" + t.TempDir()} {
		generate := func(want int, args ...string) (script, log string) {
			script, log, status := runCLI(append([]string{"sql", "--generate", "--store", url}, args...)...)
			assert.Equal(t, want, status, log)
			require.Equal(t, want == command.OK, script != "")
			return script, log
		}
		_, log := generate(command.OK, "--worker", "1023")
		require.Contains(t, log, "is it the right store?")

		store := openStore(t, url)
		acquire := func(worker int, reuse lease.Reuse) *lease.Lease {
			l, _ := hold(t, store, lease.Options{NewStore: true, First: worker, Count: 1, Owner: "web", Reuse: reuse})
			return l
		}
		acquire(3, lease.ReuseAny)
		require.NoError(t, acquire(4, lease.ReuseKeep).Release(t.Context()))
		require.NoError(t, acquire(5, lease.ReuseAny).Release(t.Context()))
		for worker, says := range map[string]string{
			"3": "worker 3 is held by web", "4": "worker 4 is kept for web", "5": "worker 5 is free from",
		} {
			_, log = generate(command.Failure, "--worker", worker)
			require.Contains(t, log, says)
			require.Contains(t, log, "choose a worker ID that was never leased")
		}
		script, log := generate(command.OK, "--worker", "6")
		require.Contains(t, script, "snowflake_worker_6")
		require.Equal(t, "snowflaked: Keep worker 6 out of the leases' range: lease.Options{First: 7, Count: 1017} in every process, or snowflaked serve --first 7 --count 1017.\n", log)
		script, _ = generate(command.OK, "--worker", "6", "--json")
		require.Contains(t, script, `{"count":1017,"first":7,"sql":"--`)
		_, log = generate(command.Failure, "--worker", "6", "--layout", "jssafe")
		require.Contains(t, log, "the leases have the layout 41/10/12@2026-01-01,1ms, and not 33/4/15@2026-01-01,1s")
		generate(command.Usage)
		generate(command.Usage, "--worker", "1024")
		generate(command.Usage, "--worker", "6", "--schema", "a.b")
		generate(command.Usage, "--worker", "6", "mysql")
	}
}
