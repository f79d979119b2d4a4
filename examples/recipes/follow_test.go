//go:build unix

package recipes

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/jmoiron/sqlx"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/follow"
	"github.com/seed-5394e6b1/snowflake/internal/lab/servertest"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/metrics"
)

// Note is a row of an outbox.
type Note struct {
	ID   snowflake.ID `gorm:"primaryKey;autoIncrement:false"`
	Name string
}

// outbox has the fence, lease, generator and Writer of a process that writes.
type outbox struct {
	fence *follow.Fence
	l     *lease.Lease
	gen   *snowflake.Generator
	w     *follow.Writer
}

// byDoing are recipes that insert a note in a transaction of follow.Writer, by name. The files of
// the build with all recipes add theirs.
var byDoing = map[string]func(ctx context.Context, t *testing.T, db *sql.DB, tx *follow.Tx, note Note) error{
	"gorm": func(ctx context.Context, t *testing.T, db *sql.DB, tx *follow.Tx, note Note) error {
		server := servertest.Must(gorm.Open(postgres.New(postgres.Config{Conn: db}), &gorm.Config{Logger: logger.Discard}))(t)
		return createInGORM(ctx, server, tx, &note)
	},
}

func createInGORM(ctx context.Context, db *gorm.DB, tx *follow.Tx, note *Note) error {
	session := db.Session(&gorm.Session{NewDB: true, Context: ctx, SkipDefaultTransaction: true})
	session.Statement.ConnPool = tx.Tx
	return session.Create(note).Error
}

func init() { onPostgreSQL["follow"] = testFollow }

func testFollow(t *testing.T, url string) {
	ctx, store := t.Context(), lease.File(t.TempDir())
	db := servertest.Open(t, "pgx", url)
	servertest.Must(db.Exec(`CREATE TABLE notes (id bigint PRIMARY KEY, name text NOT NULL)`))(t)
	defer db.Exec(`DROP TABLE notes`)
	var o outbox
	o.fence = servertest.Must(follow.NewFence(follow.PostgreSQL, "notes_fence"))(t)
	require.NoError(t, o.fence.Create(ctx, db))
	o.l = servertest.Must(lease.Acquire(ctx, store, &lease.Options{
		NewStore:   true,
		FloorEvery: 50 * time.Millisecond,
		Logger:     slog.New(slog.DiscardHandler),
	}))(t)
	defer o.l.Release(context.Background())
	o.gen = servertest.Must(snowflake.NewLeased(o.l, nil))(t)
	o.w = follow.NewWriter(db, o.fence, o.l, o.gen)
	pool := servertest.Must(pgxpool.New(ctx, url))(t)
	defer pool.Close()

	ways := map[string]func(id snowflake.ID) error{
		"pgx":  func(snowflake.ID) error { return o.insertPgx(ctx, pool, "pgx") },
		"sqlx": func(snowflake.ID) error { return o.insertSQLX(ctx, sqlx.NewDb(db, "pgx"), "sqlx") },
	}
	for name, insert := range byDoing {
		ways[name] = func(snowflake.ID) error {
			return o.w.Do(ctx, func(tx *follow.Tx) error {
				id, err := tx.NextID()
				if err != nil {
					return err
				}
				return insert(ctx, t, db, tx, Note{id, name})
			})
		}
	}
	r := follow.NewReader(store, stdlib.OpenDBFromPool(pool), o.fence, 0, &follow.Options{Table: "notes", Every: 50 * time.Millisecond})
	registry := prometheus.NewRegistry()
	collector := servertest.Must(metrics.NewReader(r, prometheus.Labels{"table": "notes"}))(t)
	require.NoError(t, registry.Register(collector))
	for name, insert := range ways {
		require.NoError(t, insert(0), name)
		var found []string
		require.NoError(t, r.Read(ctx, func(tx *sql.Tx, s follow.Span) error {
			return tx.QueryRow(`SELECT array_agg(name)::text FROM notes WHERE id > $1 AND id <= $2`, s.After, s.UpTo).Scan((*text)(&found))
		}))
		assert.Equal(t, []string{"{" + name + "}"}, found)

		// Each is under the fence.
		var id snowflake.ID
		require.NoError(t, db.QueryRow(`SELECT max(id) FROM notes`).Scan(&id))
		_, err := db.Exec(fmt.Sprintf(`SELECT setval('notes_fence_mark', %d)`, id+snowflake.ID(time.Hour/time.Millisecond)<<22))
		require.NoError(t, err)
		require.ErrorIs(t, insert(0), follow.ErrLate, name)
		servertest.Must(db.Exec(fmt.Sprintf(`SELECT setval('notes_fence_mark', %d)`, id)))(t)
	}
	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(fmt.Sprintf(`
		# HELP snowflake_reader_rows_total Rows of these spans, if the reader knows the table.
		# TYPE snowflake_reader_rows_total counter
		snowflake_reader_rows_total{table="notes"} %d
	`, len(ways))), "snowflake_reader_rows_total"))
	require.Positive(t, r.Stats().Lag)
}

type text []string

func (t *text) Scan(src any) error {
	*t = append(*t, src.(string))
	return nil
}

// insertPgx inserts a note in a transaction of pgx. If it is late, pgx rolls back: call it again.
func (o *outbox) insertPgx(ctx context.Context, pool *pgxpool.Pool, name string) error {
	defer o.l.Hold()() // before the first ID, and ended after the transaction
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		id, err := o.gen.NextIDContext(ctx)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `INSERT INTO notes (id, name) VALUES ($1, $2)`, id, name); err != nil {
			return err
		}
		var mark snowflake.ID
		if err := tx.QueryRow(ctx, o.fence.SQL()).Scan(&mark); err != nil {
			return err
		}
		if id <= mark { // id is the least of the transaction
			return follow.ErrLate
		}
		return nil
	})
}

// insertSQLX inserts a note in a transaction of sqlx. If it is late, it is rolled back: call it
// again.
func (o *outbox) insertSQLX(ctx context.Context, db *sqlx.DB, name string) error {
	defer o.l.Hold()() // before the first ID, and ended after the transaction
	tx, err := db.BeginTxx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	id, err := o.gen.NextIDContext(ctx)
	if err != nil {
		return err
	}
	if _, err := tx.NamedExecContext(ctx, `INSERT INTO notes (id, name) VALUES (:id, :name)`, Note{id, name}); err != nil {
		return err
	}
	if err := o.fence.Check(ctx, tx, id); err != nil { // id is the least of the transaction
		return err
	}
	return tx.Commit()
}
