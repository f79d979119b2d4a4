//go:build unix && full

package recipes

import (
	"context"
	"database/sql"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/follow"
	"github.com/seed-5394e6b1/snowflake/internal/lab/servertest"
	"github.com/seed-5394e6b1/snowflake/postgres"
)

type Shoe struct {
	ID   snowflake.ID  `bun:"id,pk,type:bigint"`
	Left *snowflake.ID `bun:"left_id"`
}

var _ bun.BeforeAppendModelHook = (*Shoe)(nil)

func (s *Shoe) BeforeAppendModel(_ context.Context, query bun.Query) (err error) {
	if _, insert := query.(*bun.InsertQuery); insert && s.ID == 0 {
		s.ID, err = gen.NextID()
	}
	return err
}

var gen *snowflake.Generator // the hook has no other way to it

func init() {
	onPostgreSQL["bun"] = testBun
	byDoing["bun"] = func(ctx context.Context, _ *testing.T, conn *sql.DB, tx *follow.Tx, note Note) error {
		db := bun.NewDB(conn, pgdialect.New())
		_, err := db.NewInsert().Conn(tx.Tx).Model(&note).Exec(ctx)
		return err
	}
}

func testBun(t *testing.T, url string) {
	gen = newGenerator(t)
	db, ctx := bun.NewDB(servertest.Open(t, "pgx", url), pgdialect.New()), t.Context()
	_, err := db.NewCreateTable().Model((*Shoe)(nil)).Exec(ctx)
	require.NoError(t, err)
	defer db.NewDropTable().Model((*Shoe)(nil)).Exec(context.Background())

	shoes := []*Shoe{{}, {}}
	_, err = db.NewInsert().Model(&shoes).Exec(ctx)
	require.NoError(t, err)
	assert.Positive(t, shoes[0].ID)
	assert.Greater(t, shoes[1].ID, shoes[0].ID)
	right := &Shoe{Left: &shoes[0].ID}
	_, err = db.NewInsert().Model(right).Exec(ctx)
	require.NoError(t, err)

	var found []Shoe
	err = db.NewSelect().Model(&found).Where("id IN (?)", bun.List([]snowflake.ID{shoes[1].ID, right.ID})).Order("id").Scan(ctx)
	require.NoError(t, err)
	assert.Equal(t, []Shoe{*shoes[1], *right}, found)
	err = db.NewSelect().Model(&found).Where("id = ANY(?)", postgres.Array([]snowflake.ID{right.ID})).Scan(ctx)
	require.NoError(t, err)
	assert.Equal(t, []Shoe{*right}, found)
}
