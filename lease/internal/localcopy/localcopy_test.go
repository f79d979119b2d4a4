//go:build go1.25

package localcopy

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease/internal/book"
	"github.com/seed-5394e6b1/snowflake/lease/internal/file"
	"github.com/seed-5394e6b1/snowflake/lease/internal/machine"
	"github.com/seed-5394e6b1/snowflake/lease/internal/protocol"
)

// The store is not told that an entry is deleted which is still here.
func TestEntryThatCannotBeRemovedHereStaysInTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fails := func(_ string, err error) error { return err }
		removes, errFault := true, errors.New("the disk is read only")
		faulty := func(what, _ string, do func() error) error {
			if what == "remove" && !removes {
				return errFault
			}
			return do()
		}
		shared, dir := file.New(t.TempDir(), machine.Disk, fails), t.TempDir()
		count := func() int {
			all, err := shared.List(t.Context(), book.RecordPrefix)
			require.NoError(t, err)
			return len(all)
		}
		s, err := New(t.Context(), shared, Directory{file.NewCopy(dir, faulty, fails), dir, fails}, "a", time.Second)
		require.NoError(t, err)
		plain := snowflake.Layout{Epoch: snowflake.UnixEpoch, Unit: time.Millisecond, TimeBits: 41, SequenceBits: 4}
		by := protocol.Holder{Token: "t", Owner: s.Owner(), WindowLength: time.Second}
		r, err := book.PutRecord(book.LineTo(t.Context(), s), protocol.Record{Layout: plain, Saves: 1}.Take(protocol.Window{}, by, time.Time{}, protocol.Clocks{Own: time.Now()}))
		require.NoError(t, err)
		removes = false
		require.ErrorIs(t, s.Delete(t.Context(), book.RecordKey(0), r.Version), errFault)
		require.Equal(t, 1, count())

		_, err = s.local.Put(t.Context(), book.ChunkKey(0, 0), "", []byte("[]"))
		require.NoError(t, err)
		require.ErrorIs(t, s.sendChunks(t.Context(), 0), errFault)
		removes = true
		require.NoError(t, s.sendChunks(t.Context(), 0))
		require.NoError(t, s.Delete(t.Context(), book.RecordKey(0), r.Version))
		require.Zero(t, count())
	})
}
