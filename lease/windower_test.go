package lease

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/layouts"
)

// patient is a store with another default window.
type patient struct {
	*memory
	window time.Duration
}

func (p patient) DefaultWindow() time.Duration { return p.window }

func TestStoreSetsDefaultWindow(t *testing.T) {
	slow := layouts.Sonyflake()
	slow.Unit = time.Minute
	for _, test := range []struct {
		store, option time.Duration
		layout        snowflake.Layout
		want          time.Duration
	}{
		{store: 0, want: 3 * time.Second},
		{store: -1, want: 3 * time.Second},
		{store: 100 * time.Second, want: 100 * time.Second},
		{store: time.Second, want: time.Second},
		{store: 100 * time.Second, option: 5 * time.Second, want: 5 * time.Second},
		{store: time.Second, layout: slow, want: 3 * time.Minute},
		{store: 2 * time.Minute, layout: slow, want: 3 * time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			l, err := Acquire(t.Context(), patient{newMemory(), test.store}, &Options{Window: test.option, Layout: test.layout, NewStore: true})
			require.NoError(t, err)
			defer stopRenewing(l)
			require.Equal(t, test.want, l.o.Window, "%+v", test)
		})
	}
}
