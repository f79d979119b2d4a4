//go:build go1.25

package lease_test

import (
	"context"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake/lease"
)

// Another process has an entry's file open for a while, so that nobody else can replace it (to read
// it), or so that nobody else can open it.
func TestEntryThatIsOpenElsewhereIsWaitedFor(t *testing.T) {
	open := func(t *testing.T, path string, share uint32) *os.File {
		name, err := syscall.UTF16PtrFromString(path)
		require.NoError(t, err)
		h, err := syscall.CreateFile(name, syscall.GENERIC_READ, share, nil, syscall.OPEN_EXISTING, syscall.FILE_ATTRIBUTE_NORMAL, 0)
		require.NoError(t, err)
		return os.NewFile(uintptr(h), path)
	}
	for _, test := range []struct {
		name  string
		share uint32
		do    func(context.Context, lease.Store, lease.Entry) error
	}{
		{"replace while it is read", syscall.FILE_SHARE_READ | syscall.FILE_SHARE_WRITE, func(ctx context.Context, s lease.Store, e lease.Entry) error {
			_, err := s.Put(ctx, e.Key, e.Version, []byte("next"))
			return err
		}},
		{"delete while it is read", syscall.FILE_SHARE_READ | syscall.FILE_SHARE_WRITE, func(ctx context.Context, s lease.Store, e lease.Entry) error {
			return s.Delete(ctx, e.Key, e.Version)
		}},
		{"read", 0, func(ctx context.Context, s lease.Store, e lease.Entry) error {
			_, err := s.Get(ctx, e.Key)
			return err
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir := t.TempDir()
				s := lease.File(dir)
				e := mustPut(t, s, "worker/1", "", "one")
				f := open(t, fileOf(dir, 1), test.share)

				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				begun := time.Now()
				require.ErrorIs(t, test.do(ctx, s, e), context.DeadlineExceeded)
				require.Equal(t, time.Second, time.Since(begun))

				names(t, test.do(t.Context(), s, e), fileOf(dir, 1))

				go func() {
					time.Sleep(time.Second)
					_ = f.Close()
				}()
				require.NoError(t, test.do(t.Context(), s, e))
			})
		})
	}
}
