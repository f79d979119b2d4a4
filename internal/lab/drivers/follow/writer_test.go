//go:build unix

package follow_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/follow"
	"github.com/seed-5394e6b1/snowflake/internal/lab/servertest"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// Do calls fn again, with new IDs, if the fence has passed its IDs, from the transaction or, as in
// a mapper's hook, from the generator.
func TestDoTriesAgainWithNewIDs(t *testing.T) {
	each(t, func(t *testing.T, db database, f *follow.Fence) {
		p := leased(t)
		w := follow.NewWriter(db.DB, f, p.Lease, p.gen)
		sources := map[string]func(*follow.Tx) (snowflake.ID, error){
			"NextID":        (*follow.Tx).NextID,
			"the generator": func(*follow.Tx) (snowflake.ID, error) { return p.gen.NextID() },
		}
		for name, next := range sources {
			var drawn []snowflake.ID
			require.NoError(t, w.Do(t.Context(), func(tx *follow.Tx) error {
				id := servertest.Must(next(tx))(t)
				if drawn = append(drawn, id); len(drawn) == 1 {
					if db.dialect == follow.SQLite { // no other transaction can write now
						servertest.Must(tx.Exec(`UPDATE outbox_fence SET id = ?`, id))(t)
					} else {
						db.set(t, id)
					}
				}
				_, err := tx.Exec(insert(id))
				return err
			}), name)
			if db.dialect == follow.SQLite {
				require.Len(t, drawn, 2, "%s: SQLite rolls the fence back, too, so the second try is in time", name)
			}
			require.Len(t, drawn, 2, name)
			require.Equal(t, drawn[1:], ids(t, db, follow.Span{After: drawn[0] - 1, UpTo: drawn[1]}), name)
		}

		// If the fence is in the future, Do gives up.
		db.set(t, p.id(t)+snowflake.ID(time.Hour/time.Millisecond)<<22)
		calls := 0
		err := w.Do(t.Context(), func(tx *follow.Tx) error {
			calls++
			_, err := tx.NextID()
			return err
		})
		require.ErrorIs(t, err, follow.ErrLate)
		require.ErrorContains(t, err, "5 tries")
		require.Equal(t, 5, calls)
	})
}

// After a panic, an error or the end of the context, there is no row, no open transaction, and no
// Hold.
func TestDoLeavesNothingOpen(t *testing.T) {
	each(t, func(t *testing.T, db database, f *follow.Fence) {
		p := leased(t)
		db.SetMaxOpenConns(1)
		w := follow.NewWriter(db.DB, f, p.Lease, p.gen)
		failed := errors.New("failed")
		var row snowflake.ID
		write := func(ctx context.Context, then func() error) (err error) {
			defer func() {
				if v := recover(); v != nil {
					err = v.(error)
				}
			}()
			return w.Do(ctx, func(tx *follow.Tx) error {
				row = servertest.Must(tx.NextID())(t)
				servertest.Must(tx.Exec(insert(row)))(t)
				return then()
			})
		}
		ctx, cancel := context.WithCancel(t.Context())
		require.ErrorIs(t, write(ctx, func() error { return failed }), failed)
		require.ErrorIs(t, write(ctx, func() error { panic(failed) }), failed)
		require.Error(t, write(ctx, func() error { cancel(); return nil }))
		require.ErrorIs(t, w.Do(ctx, func(*follow.Tx) error { panic("it has no transaction") }), context.Canceled)
		pass(t, db, f, p) // needs the only connection, and does not end if there is a Hold
		require.Empty(t, ids(t, db, follow.Span{UpTo: row}))
		require.NoError(t, write(t.Context(), func() error { return nil }))
		require.Len(t, ids(t, db, follow.Span{After: row - 1, UpTo: row}), 1)
	})
}

// While fn runs, the watermark stays below its IDs, although others issue more.
func TestDoHoldsTheWatermarkBack(t *testing.T) {
	t.Parallel()
	db := dialects["SQLite"](t)
	f, p := prepare(t, db), leased(t)
	join(t, p.store)
	require.NoError(t, follow.NewWriter(db.DB, f, p.Lease, p.gen).Do(t.Context(), func(tx *follow.Tx) error {
		id := servertest.Must(tx.NextID())(t)
		// Without a Hold, the watermark is above the ID after about 50 ms.
		for begun := time.Now(); time.Since(begun) < time.Second; time.Sleep(10 * time.Millisecond) {
			m := servertest.Must(lease.Watermark(t.Context(), p.store))(t)
			require.Less(t, m.ID, id)
			p.id(t)
		}
		return nil
	}))
}
