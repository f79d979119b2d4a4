package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake/lease"
)

// After init no first start waits. Init may be repeated, and changes nothing then.
func TestInitMakesTheStoreOnce(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "leases.db")
	for _, says := range []string{"the store was initialized", "nothing was changed"} {
		assert.Contains(t, succeed(t, "init", "--store", "sqlite:"+file, "--layout", "43/8/12"), says)
	}

	store := openStore(t, "sqlite:"+file)
	// A new store without init would wait for longer.
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	l, err := lease.Acquire(ctx, store, &lease.Options{Layout: layoutOf(t, "43/8/12")})
	require.NoError(t, err)
	require.NoError(t, l.Release(t.Context()))
}

// In a store that has lost entries, starts wait. The text and the JSON say so.
func TestInitSaysThatStartsWait(t *testing.T) {
	store := "sqlite:" + filepath.Join(t.TempDir(), "leases.db")
	succeed(t, "init", "--store", store)
	succeed(t, "new", "--store", store)
	s := openStore(t, store)
	door, err := s.Get(t.Context(), "store")
	require.NoError(t, err)
	require.NoError(t, s.Delete(t.Context(), "store", door.Version))
	for _, args := range [][]string{{"init", "--store", store}, {"init", "--store", store, "--json"}} {
		assert.Regexp(t, "has lost other entries: starts wait for 3m", succeed(t, args...))
	}
}

// A relative path would not tell which directory has the store.
func TestInitPrintsTheAbsolutePath(t *testing.T) {
	t.Chdir(t.TempDir())
	dir, err := os.Getwd()
	require.NoError(t, err)
	out := succeed(t, "init", "--store", "file:leases")
	require.True(t, strings.HasPrefix(out, "file:"+filepath.Join(dir, "leases")+": "), out)
}
