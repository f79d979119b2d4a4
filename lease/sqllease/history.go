package sqllease

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/seed-5394e6b1/snowflake/lease"
)

// ending is what SaveEnding writes besides the record: a row of the history, and the
// instant before which other rows are dropped. The texts of instants sort as the instants
// do.
type ending struct {
	id                    string // different for each Token, ClockSeq and From
	begun, ended, holding string
	forget                string
}

func sortable(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000000Z") }

func newEnding(h lease.Holding, forget time.Time) (*ending, error) {
	b, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	e := &ending{begun: sortable(h.From), ended: sortable(h.To), holding: toASCII(b), forget: sortable(forget)}
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %s %s", h.ClockSeq, e.begun, h.Token))
	e.id = hex.EncodeToString(sum[:16])
	return e, nil
}

// SaveEnding is Save and, in the same transaction, adds ended to the history of r.Worker,
// and drops from this history each holding that ended before forget. Errors are as for
// Save.
func (s *Store) SaveEnding(ctx context.Context, r lease.Record, ended lease.Holding, forget time.Time) (lease.Record, error) {
	e, err := newEnding(ended, forget)
	if err != nil {
		return r, s.wrap(ctx, err)
	}
	return s.save(ctx, r, e)
}

// History returns the earlier holders of a worker ID. Errors match [lease.ErrBadRecord],
// [ErrNoTable] or the context's error, or are the driver's.
func (s *Store) History(ctx context.Context, worker int) (kept []lease.Holding, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	read := func() error {
		kept = nil
		return each(ctx, s.db, s.statement(s.sql.history, worker), func(rows *sql.Rows) error {
			var text string
			var h lease.Holding
			err := rows.Scan(&text)
			if err == nil {
				err = json.Unmarshal([]byte(text), &h)
			}
			if err == nil && h.Worker != worker {
				err = fmt.Errorf("it is of worker %d", h.Worker)
			}
			if err != nil {
				return fmt.Errorf("%w: worker %d: %w", lease.ErrBadRecord, worker, err)
			}
			kept = append(kept, h)
			return nil
		})
	}
	return kept, s.history.retry(ctx, read)
}
