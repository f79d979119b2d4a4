package lease

import (
	"bytes"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
)

// What trials on real servers found, and what a deploy may meet.

func TestDurationsInJSONLogsAreReadable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		h := mustAcquire(t, newMemory(), plain, clockAt(0), func(o *Options) { o.Logger = slog.New(slog.NewJSONHandler(&log, nil)) })
		assert.Contains(t, log.String(), `"window":"3s"`)
		require.NoError(t, h.Release(t.Context()))
	})
}

// Two saves get no answer. The earlier one is stored after all, when the holder reads its record again.
func TestHolderContinuesAfterALateOlderSave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		h := mustAcquire(t, m, plain, clockAt(0), windowed(time.Minute), stops)
		h.next()
		var late []Record
		m.onSave = func() {}
		for range 2 {
			r := *h.record.Load()
			h.op <- struct{}{}
			m.set(func() { m.refuses = map[int]bool{0: true} })
			require.Error(t, h.push(t.Context(), h.window.to.Add(time.Duration(len(late)+1)*time.Second), time.Now()))
			late = append(late, h.tried[len(h.tried)-1])
			h.unknown = len(late) > 1 // the second save is made without a look
			h.unlock()
			require.Equal(t, r.version, h.record.Load().version)
		}
		m.set(func() {
			m.refuses = nil
			m.change(0, func(r *Record) { *r = late[0] })
		})
		time.Sleep(time.Minute)
		require.NoError(t, h.Err())
		h.next()
	})
}

// Whois of an owner with a LocalCopy, which may issue IDs that the store is not told of.
func TestWhoisOfALocalCopy(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		h := mustAcquire(t, m, fleet, clockAt(0), withCopy(dir))
		from := h.Grant().From
		m.set(func() { m.down = true })
		time.Sleep(time.Minute)
		last := h.next()
		m.set(func() { m.down = false })
		whois := func(at time.Time) (Holding, error) {
			id, err := fleet.Encode(snowflake.Parts{Worker: h.Worker(), Time: at})
			require.NoError(t, err)
			return Whois(t.Context(), m, id)
		}
		by, err := whois(last.Time)
		assert.ErrorIs(t, err, ErrUntold, "the store was away")
		assert.Equal(t, h.o.Owner, by.Owner)
		_, err = whois(from.Add(-ms))
		assert.ErrorIs(t, err, ErrNeverIssued, "nobody had the worker ID before")
		time.Sleep(span)
		by, err = whois(last.Time)
		assert.NoError(t, err, "the store was told")
		assert.Equal(t, h.o.Owner, by.Owner)
	})
}
