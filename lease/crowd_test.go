package lease

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
)

// Only one caller at a time reads all records. If any worker ID will do, a caller that waits for its
// turn reads single records meanwhile, and no more of them than it needs.
func TestCallersInACrowdReadOnlyTheRecordsTheyNeed(t *testing.T) {
	const records = 200
	for _, test := range []struct {
		name    string
		free    func(worker int) bool
		options func(*Options)
		others  bool
		most    int // records that are read
		least   int
	}{
		{"alone", func(int) bool { return true }, nil, false, 300, records},
		{"all are free", func(int) bool { return true }, nil, true, choice + 10, choice},
		{"most were never used", func(int) bool { return false }, func(o *Options) { o.Count = 1024 }, true, 10, 1},
		{"one is free", func(w int) bool { return w == 57 }, nil, true, 2*records + 10, records},
		{"an owner looks for its own", func(int) bool { return true }, func(o *Options) { o.Reuse = ReuseKeep; o.Count = 1024 }, true, 300, records},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), "leases")
				for w := range records {
					r := Record{Layout: snowflake.DefaultLayout(), Worker: w, Version: 1, State: Spent, Owner: fmt.Sprint("o", w), Token: "t", Window: time.Second}
					if test.free(w) {
						r.State = Free
					}
					_, err := File(dir).Save(t.Context(), r.withBound(0, time.Now()))
					require.NoError(t, err)
				}
				turn := filepath.Join(dir, "load.lock")
				var read, locked atomic.Int64
				others, err := tryLock(turn)
				require.NoError(t, err)
				defer others.Close()
				s := HookedFile(dir, func(what, path string) {
					switch {
					case path == turn && what == "lock":
						if locked.Add(1) == 2 || !test.others {
							others.Close()
						}
					case what == "read" && strings.HasPrefix(filepath.Base(path), filePrefix):
						read.Add(1)
					}
				})
				o := &Options{Layout: snowflake.DefaultLayout(), Count: records, Owner: "x"}
				if test.options != nil {
					test.options(o)
				}
				time.Sleep(time.Minute)
				l, err := Acquire(t.Context(), s, o)
				require.NoError(t, err)
				defer l.Release(t.Context())
				assert.True(t, l.Worker() >= records || test.free(l.Worker()))
				assert.GreaterOrEqual(t, int(read.Load()), test.least)
				assert.LessOrEqual(t, int(read.Load()), test.most)
			})
		})
	}
}
