//go:build unix

package follow_test

import (
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/follow"
)

const childEnv = "FOLLOW_CHILD"

func child(string) {}

// Rows come in the order of their IDs, once, by Next and by Read, with a table that the reader knows and without.
func TestRowsComeInOrderAndOnce(t *testing.T) {
	each(t, func(t *testing.T, db database, f *follow.Fence) {
		p := leased(t)
		w := follow.NewWriter(db.DB, f, p.Lease, p.gen)
		var want []snowflake.ID
		for range 25 {
			require.NoError(t, w.Do(t.Context(), func(tx *follow.Tx) error {
				id, err := tx.NextID()
				if err != nil {
					return err
				}
				want = append(want, id)
				_, err = tx.Exec(insert(id))
				return err
			}))
		}
		last := want[len(want)-1]
		unknown := fast()
		unknown.Table = ""
		for name, o := range map[string]*follow.Options{"table": fast(), "no table": unknown} {
			var got []snowflake.ID
			r := follow.NewReader(p.store, db.DB, f, 0, o)
			for cursor := snowflake.ID(0); cursor < last; {
				s, err := r.Next(t.Context())
				require.NoError(t, err)
				require.Equal(t, cursor, s.After, name)
				require.Greater(t, s.UpTo, s.After)
				got = append(got, ids(t, db, s)...)
				cursor = s.UpTo
			}
			require.Equal(t, want, got, name)
			got = nil
			r = follow.NewReader(p.store, db.DB, f, want[4], o)
			for n := 0; len(got) < 20; n++ {
				failed := errors.New("failed")
				err := r.Read(t.Context(), func(tx *sql.Tx, s follow.Span) error {
					if n == 0 {
						return failed // the same rows come again
					}
					got = append(got, ids(t, tx, s)...)
					return nil
				})
				require.Equal(t, n == 0, err == failed, "%v", err)
				require.Equal(t, n != 0, err == nil, "%v", err)
			}
			require.Equal(t, want[5:], got, name)
		}
	})
}

// A reader that was away goes on in spans of Rows rows.
func TestBacklogComesInSpansOfBoundedSize(t *testing.T) {
	each(t, func(t *testing.T, db database, f *follow.Fence) {
		p := leased(t)
		var want []snowflake.ID
		for range 25 {
			want = append(want, p.id(t))
			db.exec(t, insert(want[len(want)-1]))
		}
		o := fast()
		o.Rows = 10
		o.Every = time.Hour // a backlog waits for nothing
		follow.NewReader(p.store, db.DB, f, 0, fast())
		r := follow.NewReader(p.store, db.DB, f, 0, fast())
		for s := (follow.Span{}); s.UpTo < want[24]; { // the fence is above the rows
			var err error
			s, err = r.Next(t.Context())
			require.NoError(t, err)
		}
		r = follow.NewReader(p.store, db.DB, f, 0, o)
		for _, part := range [][]snowflake.ID{want[:10], want[10:20], want[20:]} {
			require.NoError(t, r.Read(t.Context(), func(tx *sql.Tx, s follow.Span) error {
				require.Equal(t, part, ids(t, tx, s))
				return nil
			}))
		}
	})
}
