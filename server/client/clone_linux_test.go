//go:build go1.25

package client

import (
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/vmclock/vmclocktest"
)

func TestCloneDiscardsItsBuffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "vmclock0")
		vmclocktest.Write(t, path, 1)
		s := &counter{}
		c := newClient(t, s, Options{Batch: 10, VMClock: path})
		id, err := c.NextIDContext(t.Context())
		require.NoError(t, err)
		assert.Equal(t, snowflake.ID(1), id)
		synctest.Wait()
		asked := snowflake.ID(s.last.Load())
		vmclocktest.Write(t, path, 2)
		id, err = c.NextIDContext(t.Context())
		require.NoError(t, err)
		assert.Greater(t, id, asked)
	})
}

// Each copy has the answer in its connection's buffers.
func TestCloneDiscardsAnAnswerInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "vmclock0")
		vmclocktest.Write(t, path, 1)
		s := &counter{}
		s.after = func(call int64) error {
			if call == 1 {
				time.Sleep(time.Second)
				vmclocktest.Write(t, path, 2)
			}
			return nil
		}
		c := newClient(t, s, Options{Batch: 10, VMClock: path})
		id, err := c.NextIDContext(t.Context())
		require.NoError(t, err)
		assert.Greater(t, id, snowflake.ID(10))
	})
}

func TestVMClockThatCannotBeUsedIsRefused(t *testing.T) {
	_, err := New("http://127.0.0.1:1", &Options{VMClock: filepath.Join(t.TempDir(), "none")})
	require.ErrorIs(t, err, snowflake.ErrInvalidOptions)
}
