//go:build go1.25

package lease

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake/lease/internal/book"
)

func TestNamesakesAreLoggedOnceByBoth(t *testing.T) {
	for _, test := range []struct {
		owner string
		reuse Reuse
		want  int
	}{{"a", ReuseAny, 1}, {"a", ReuseKeep, 1}, {"a", ReuseOnce, 0}, {"", ReuseAny, 0}, {"", ReuseKeep, 0}} {
		inBubble(t, fmt.Sprintf("owner=%s/reuse=%v", test.owner, test.reuse), func(t *testing.T) {
			m := newMemory()
			var logs [2]bytes.Buffer
			for i := range logs {
				_, err := acquire(t, m, fleet, clockAt(0), func(o *Options) {
					o.Owner, o.Reuse, o.Logger = test.owner, test.reuse, slog.New(slog.NewTextHandler(&logs[i], nil))
				})
				if i == 0 || test.reuse != ReuseKeep {
					require.NoError(t, err)
				} else {
					require.ErrorIs(t, err, ErrExhausted)
				}
				time.Sleep(10 * time.Minute) // the first one looks as seldom as it ever does
			}
			for i := range logs {
				assert.Equal(t, test.want, strings.Count(logs[i].String(), "another live process has the same Owner"), logs[i].String())
				if test.want > 0 {
					assert.Contains(t, logs[i].String(), fmt.Sprintf("process=%q", processText(hostname(), os.Getpid())))
				}
			}
		})
	}
}

// If the store does not answer whoever looks for a namesake, the window does not end.
func TestNoRenewalIsLateBecauseOfALookForANamesake(t *testing.T) {
	withMemory(t, func(t *testing.T, m *memory) {
		var looks atomic.Int32
		h := mustAcquire(t, m, fleet, clockAt(0))
		m.becomes(func(ctx context.Context, q *query, next asks) error {
			if strings.HasPrefix(q.key, book.OwnerPrefix) {
				looks.Add(1)
				<-ctx.Done()
				return ctx.Err()
			}
			return next(ctx, q)
		})
		for range 1150 {
			time.Sleep(97 * ms)
			h.next()
		}
		assert.EqualValues(t, 5, looks.Load(), "after 1, 3, 7, 15 and 31 windows")
		assert.Zero(t, h.Stats().Failures)
	})
}
