package lease

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
)

func TestDurationsInJSONLogsAreReadable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		h := mustAcquire(t, newMemory(), plain, clockAt(0), func(o *Options) { o.Logger = slog.New(slog.NewJSONHandler(&log, nil)) })
		assert.Contains(t, log.String(), `"window":"3s"`)
		require.NoError(t, h.Release(t.Context()))
	})
}

func TestLayoutThatRunsOutIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		old := plain
		old.Epoch = snowflake.Epoch(time.Now().Add(time.Hour + 365*24*time.Hour - 1<<41*ms).UnixMilli())
		mustAcquire(t, newMemory(), old, clockAt(0), func(o *Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) }).next()
		for _, told := range []int{0, 1, 1} {
			time.Sleep(40 * time.Minute)
			assert.Equal(t, told, strings.Count(log.String(), `WARN msg="lease: the layout will run out of time"`))
		}
	})
}
