//go:build unix && go1.25

package natslease_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake/internal/lab/servertest"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// If a server has lost a file of the bucket in a crash, later starts find the entry as it was
// stored, or an empty store, in which its versions do not repeat.
func TestFileThatIsLostInACrash(t *testing.T) {
	t.Parallel()
	c := start(t, 1, "jetstream: {store_dir: STORE, max_file: 1G, sync_interval: always}").Cluster
	store := opened(t, connect(t, c[0].Addr), "lost")
	versions := map[string]bool{}
	put := func(old, value string) lease.Entry {
		e := servertest.Must(store.Put(t.Context(), "worker/1", old, []byte(value)))(t)
		require.False(t, versions[e.Version], "the version %s repeats", e.Version)
		versions[e.Version] = true
		return e
	}
	get := func() (e lease.Entry) {
		servertest.Await(t, func() (err error) { // a restarted server reads its files first
			e, err = store.Get(t.Context(), "worker/1")
			return err
		})
		return e
	}
	wiped := 0
	for _, lost := range []string{"meta.inf", "meta.sum", "."} {
		last := put("", "a")
		c[0].Kill()
		files, err := filepath.Glob(filepath.Join(c[0].Dir, "*", "*", "streams", "KV_lost", lost))
		require.NoError(t, err)
		require.NotEmpty(t, files, lost)
		for _, file := range files {
			servertest.Do(t, os.RemoveAll(file))
		}
		for range 3 {
			c[0].Restart()
			got := get()
			if got.Version != last.Version {
				wiped++
				require.Empty(t, got.Version, lost)
				_, err = store.Put(t.Context(), "worker/1", last.Version, nil)
				require.ErrorIs(t, err, lease.ErrConflict)
			}
			last = put(got.Version, "b")
			c[0].Kill()
		}
		c[0].Restart()
		if got := get(); got.Version != "" {
			servertest.Do(t, store.Delete(t.Context(), "worker/1", got.Version))
		}
	}
	require.Positive(t, wiped, "no file matters: what does the test show?")
	t.Logf("the store was lost %d times", wiped)
}
