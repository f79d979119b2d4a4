//go:build unix && go1.25

package s3lease_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake/internal/lab/servertest"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/s3lease"
)

// through opens a store whose requests go to change before they are signed.
func through(t *testing.T, s *service, prefix string, change func(*smithyhttp.Request)) *s3lease.Store {
	t.Helper()
	cfg := configOf(s.addr)
	cfg.APIOptions = append(cfg.APIOptions, func(stack *middleware.Stack) error {
		return stack.Build.Add(middleware.BuildMiddlewareFunc("change",
			func(ctx context.Context, in middleware.BuildInput, next middleware.BuildHandler) (
				middleware.BuildOutput, middleware.Metadata, error,
			) {
				change(in.Request.(*smithyhttp.Request))
				return next.HandleBuild(ctx, in)
			}), middleware.After)
	})
	return servertest.Must(s3lease.New(cfg, bucket, in(prefix)))(t)
}

// With a service that ignores a condition, two processes could have one worker ID. The store
// detects it at its first write of each kind.
func TestServiceThatIgnoresConditionsIsRefused(t *testing.T) {
	t.Parallel()
	s := shared(t)
	for _, header := range []string{"If-None-Match", "If-Match"} {
		prefix := servertest.NewSpace()
		e := servertest.Must(open(t, s.addr, in(prefix)).Put(t.Context(), "match", "", nil))(t)
		key, old := "none", ""
		if header == "If-Match" {
			key, old = e.Key, e.Version
		}
		bad := through(t, s, prefix, func(req *smithyhttp.Request) { req.Header.Del(header) })
		_, err := bad.Put(t.Context(), key, old, nil)
		require.ErrorIs(t, err, errors.ErrUnsupported, header)
		assert.ErrorContains(t, err, "ignores If-Match or If-None-Match", header)
	}
}

// The store tests once whether a service obeys each condition.
func TestConditionsAreTriedOnce(t *testing.T) {
	t.Parallel()
	requests := 0
	store := through(t, shared(t), servertest.NewSpace(), func(*smithyhttp.Request) { requests++ })
	e := lease.Entry{Key: "key"}
	for _, want := range []int{2, 4, 5, 6} { // the first has If-None-Match, the others If-Match
		before := e
		e = servertest.Must(store.Put(t.Context(), e.Key, e.Version, nil))(t)
		assert.NotEqual(t, before.Version, e.Version)
		assert.Equal(t, want, requests)
		got := servertest.Must(store.Get(t.Context(), e.Key))(t)
		assert.Equal(t, e.Version, got.Version)
		requests-- // Get's
	}
	servertest.Must(store.Put(t.Context(), "other", "", nil))(t)
	assert.Equal(t, 7, requests)
}

// A deleted entry's object stays, and counts as no entry.
func TestDeletedEntryLeavesAnObject(t *testing.T) {
	t.Parallel()
	s, prefix := shared(t), servertest.NewSpace()
	store := open(t, s.addr, in(prefix))
	for range 3 {
		e := servertest.Must(store.Put(t.Context(), "key", "", []byte("value")))(t)
		servertest.Do(t, store.Delete(t.Context(), "key", e.Version))
		f := servertest.Must(os.Stat(filepath.Join(s.dir, prefix, "key")))(t)
		assert.EqualValues(t, 26, f.Size())
		assert.Empty(t, servertest.Must(store.Get(t.Context(), "key"))(t).Version)
		assert.Empty(t, servertest.Must(store.List(t.Context(), ""))(t))
	}
}

// With ConditionalDelete, the object is deleted.
func TestConditionalDeleteLeavesNoObject(t *testing.T) {
	t.Parallel()
	s, o := shared(t), in(servertest.NewSpace())
	o.ConditionalDelete = true
	store := open(t, s.addr, o)
	e := servertest.Must(store.Put(t.Context(), "key", "", []byte("value")))(t)
	assert.ErrorIs(t, store.Delete(t.Context(), "key", `"other"`), lease.ErrConflict)
	assert.NoError(t, store.Delete(t.Context(), "key", e.Version))
	assert.NoFileExists(t, filepath.Join(s.dir, o.Prefix, "key"))
}
