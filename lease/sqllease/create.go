package sqllease

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/seed-5394e6b1/snowflake/lease"
)

// Create makes the store's tables if they are not there, and repairs a store that
// has lost records. Call it when a fleet is set up, or at each start: if the store
// is whole it does nothing. Any number of processes may do so at once.
//
// A store that is not there may be one that was lost, and then there may be holders
// that issue IDs until their windows end. So Create waits for two windows before it
// makes or repairs a store. Give it the longest lease.Options.Window of the fleet, up
// to 146 years, or 0 for the default of 3 s. For a store that is known to be new, a
// nanosecond does.
//
// It returns an error that matches [lease.ErrInvalidOptions] if the window is
// negative or longer, and an error if a table can neither be created nor used, such
// as one of the same name that has other columns, or if the database is not of the
// store's dialect.
func (s *Store) Create(ctx context.Context, window time.Duration) error {
	const poll, maxWindow = 100 * time.Millisecond, time.Duration(math.MaxInt64) / 2
	if window < 0 || window > maxWindow {
		return fmt.Errorf("sqllease: %w: the window %v is not within 0 to %v", lease.ErrInvalidOptions, window, maxWindow)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if window == 0 {
		window = 3 * time.Second
	}
	if err := s.createTables(ctx); err != nil {
		return err
	}
	for begun := time.Now(); ; {
		if whole, err := s.whole(ctx); whole || err != nil {
			return err
		}
		wait := 2*window - time.Since(begun)
		if wait <= 0 {
			return s.repair(ctx)
		}
		select {
		case <-time.After(min(wait, poll)):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (s *Store) createTables(ctx context.Context) error {
	workers, history, used := s.dialect.definitions()
	if err := s.create(ctx, workers, "worker, version, renewed, record"); err != nil {
		return err
	}
	if err := s.history.create(ctx, history, "worker, id, begun, ended, holding"); err != nil {
		return err
	}
	return s.used.create(ctx, used, "worker")
}

// whole reports whether the marker is there and no record is gone.
func (s *Store) whole(ctx context.Context) (whole bool, err error) {
	err = s.inTx(ctx, func(tx *sql.Tx) error {
		marked, lost := false, false
		err := each(ctx, tx, statement{text: s.sql.lost}, func(rows *sql.Rows) error {
			var worker int64
			err := rows.Scan(&worker)
			marked, lost = marked || worker == marker, lost || worker != marker
			return err
		})
		whole = marked && !lost
		return err
	})
	return whole, err
}

// repair makes a new store of what is there.
func (s *Store) repair(ctx context.Context) error {
	const text = "Create wrote this row. Without it the table counts as one that has lost its records."
	return s.inTx(ctx, func(tx *sql.Tx) error {
		mark := s.statement(s.sql.mark, text)
		_, err := tx.ExecContext(ctx, s.sql.repair)
		_, err2 := tx.ExecContext(ctx, mark.text, mark.args...)
		return errors.Join(err, err2)
	})
}

// inTx calls f in a transaction, because MySQL may have autocommit off.
func (s *Store) inTx(ctx context.Context, f func(*sql.Tx) error) error {
	return s.retry(ctx, func() error {
		tx, err := s.db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		if err := f(tx); err != nil {
			return err
		}
		return tx.Commit()
	})
}
