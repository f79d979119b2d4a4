package sqllease

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/seed-5394e6b1/snowflake/internal/newstore"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// Create makes the store's tables if they do not exist, and repairs a store that has lost
// records. Call it when a fleet is set up, or at each start: if the store is whole, Create
// does nothing. Any number of processes may call it at once.
//
// If the store does not exist, it may have been lost, and its holders may issue IDs until
// their windows end. So Create waits for two windows before it makes or repairs a store.
// window is the longest lease.Options.Window of the fleet, up to 146 years, or 0 for the
// default of 3 s. For a store that is known to be new, a nanosecond is enough.
//
// If window is negative or longer, the error matches [lease.ErrInvalidOptions]. Create also
// fails if a table can neither be created nor used, for example because a table of the same
// name has other columns, and if the database is not of the store's dialect.
func (s *Store) Create(ctx context.Context, window time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	created := false
	look := func(ctx context.Context) (string, error) {
		if !created {
			if err := s.createTables(ctx); err != nil {
				return "", err
			}
			created = true
		}
		return newstore.Missing(s.lost(ctx))
	}
	return newstore.Create(ctx, window, look, s.repair)
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

// lost returns the used worker IDs that have no record. If the marker is not there, the error matches
// lease.ErrWiped.
func (s *Store) lost(ctx context.Context) (lost []int, err error) {
	err = s.inTx(ctx, func(tx *sql.Tx) error {
		lost = nil
		marked := false
		err := each(ctx, tx, statement{text: s.sql.lost}, func(rows *sql.Rows) error {
			var worker int
			err := rows.Scan(&worker)
			if worker == marker {
				marked = true
			} else {
				lost = append(lost, worker)
			}
			return err
		})
		if err == nil && !marked {
			err = lease.ErrWiped
		}
		return err
	})
	return lost, err
}

// repair makes a whole store of the rows that are left.
func (s *Store) repair(ctx context.Context) error {
	const text = "Create wrote this row. If it is missing, the table counts as a table that has lost its records."
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
