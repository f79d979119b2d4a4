//go:build go1.25

package wiped_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease/driver"
	"github.com/seed-5394e6b1/snowflake/lease/internal/book"
	"github.com/seed-5394e6b1/snowflake/lease/internal/machine"
	"github.com/seed-5394e6b1/snowflake/lease/internal/protocol"
	"github.com/seed-5394e6b1/snowflake/lease/internal/wiped"
	"github.com/seed-5394e6b1/snowflake/lease/leasetest"
)

// The bubbles of the tests are hosts that do not tell when they were booted.
func init() {
	machine.BootClock = func() (host string, boot, asleep time.Duration) { return "", 0, 0 }
}

// A process that lists the records just when all of them are lost may find a mark without its
// record. Then the wait for the door is enough.
func TestRecordIsLostAloneOnlyIfItsMarkIsThere(t *testing.T) {
	m, l := new(leasetest.Memory), snowflake.DefaultLayout()
	wait := func() (protocol.Record, time.Duration) {
		w := book.WatchOf(nil)
		next, left, err := wiped.Outwait(book.LineTo(t.Context(), m), &w, protocol.Record{Worker: 1, State: protocol.StateLost}, l,
			book.ThisMoment(), protocol.Clocks{Own: time.Now()})
		require.NoError(t, err)
		return next, left
	}
	next, left := wait()
	require.Equal(t, protocol.Healing(l.Unit), left)
	require.Empty(t, next.Version, "nothing is saved")
	_, err := m.Put(t.Context(), book.MarkKey(1), "", []byte("token"))
	require.NoError(t, err)
	next, left = wait()
	require.Equal(t, protocol.Healing(l.Unit), left)
	require.NotEmpty(t, next.Version)
	require.NotEmpty(t, next.Waited.Name)
}

// raced is a store in which another process makes each save just before.
type raced struct{ *leasetest.Memory }

func (s raced) Put(ctx context.Context, key, old string, value []byte) (driver.Entry, error) {
	if _, err := s.Memory.Put(ctx, key, old, value); err != nil {
		return driver.Entry{}, err
	}
	return s.Memory.Put(ctx, key, old, value)
}

// If a process is about to save how long a record has been lost, and another process is quicker, it
// goes on with what the other one has saved.
func TestConflictWhileTheWaitForALostRecordIsSaved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := new(leasetest.Memory)
		line := book.LineTo(t.Context(), raced{m})
		l := snowflake.DefaultLayout()
		wait := func(r protocol.Record) (time.Duration, error) {
			w := book.WatchOf(nil)
			w.Seen.Lasts(wiped.LostKey(0), r.Waited.Name, r.Waited.For+time.Minute, book.ThisMoment(), time.Minute)
			_, left, err := wiped.Outwait(line, &w, r, l, book.ThisMoment(), protocol.Clocks{Own: time.Now()})
			return left, err
		}
		saved := func() protocol.Record {
			r, err := book.GetRecord(line, 0)
			require.NoError(t, err)
			return r
		}
		_, err := m.Put(t.Context(), book.MarkKey(0), "", []byte("token"))
		require.NoError(t, err)
		left, err := wait(protocol.Record{State: protocol.StateLost})
		require.NoError(t, err)
		require.Equal(t, protocol.Healing(l.Unit), left)
		left, err = wait(saved())
		require.NoError(t, err)
		require.Equal(t, protocol.Healing(l.Unit)-time.Minute, left)
		require.Equal(t, time.Minute, saved().Waited.For)
		r, down := saved(), errors.New("the store is away")
		m.Before = func(context.Context, string, string) error { return down }
		_, err = wait(r)
		require.ErrorIs(t, err, down)
	})
}

// A newcomer may have looked at the store's own entry before it became unreadable.
func TestRecordIsNoStrayIfTheStoresEntryCannotBeRead(t *testing.T) {
	m := new(leasetest.Memory)
	r := protocol.Record{Saves: 1, Holder: protocol.Holder{Store: "s"}}
	stray, err := wiped.IsStray(book.LineTo(t.Context(), m), r)
	require.NoError(t, err)
	require.True(t, stray)
	_, err = m.Put(t.Context(), book.DoorKey, "", []byte("?"))
	require.NoError(t, err)
	stray, err = wiped.IsStray(book.LineTo(t.Context(), m), r)
	require.NoError(t, err)
	require.False(t, stray)
}
