//go:build unix

package recipes

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/gormid"
)

// Coat has the tag of package gormid.
type Coat struct {
	ID      snowflake.ID `gorm:"primaryKey;autoIncrement:false;check:id > 0"`
	Name    string
	Matches *snowflake.ID
}

// testGORM tests what depends on the server. Package gormid has the tests of its plugin.
func testGORM(t *testing.T, server gorm.Dialector) {
	db, err := gorm.Open(server, &gorm.Config{Logger: logger.Discard})
	require.NoError(t, err)
	conn, err := db.DB()
	require.NoError(t, err)
	defer conn.Close()
	type Plain struct {
		ID   snowflake.ID
		Name string
	}
	require.NoError(t, db.AutoMigrate(&Coat{}, &Plain{}))
	defer db.Migrator().DropTable(&Coat{}, &Plain{})
	plain := Plain{Name: "the ID was forgotten"}
	require.NoError(t, db.Create(&plain).Error)
	assert.Equal(t, snowflake.ID(1), plain.ID, "HAZARD: without the tag, the database numbers the row")

	// With the tag, the column is a BIGINT that the database does not number.
	columns, err := db.Migrator().ColumnTypes(&Coat{})
	require.NoError(t, err)
	assert.Equal(t, "id", columns[0].Name())
	assert.Contains(t, []string{"int8", "bigint"}, columns[0].DatabaseTypeName())
	_, hasDefault := columns[0].DefaultValue()
	increments, _ := columns[0].AutoIncrement()
	assert.False(t, hasDefault || increments)
	require.Error(t, db.Create(&Coat{Name: "cape"}).Error, "the CHECK refuses an ID of 0")
	require.Error(t, db.Exec(`INSERT INTO coats (name) VALUES ('cape')`).Error, "and there is no default")

	require.NoError(t, db.Use(gormid.New(newGenerator(t))))
	one := Coat{Name: "ulster"}
	require.NoError(t, db.Create(&one).Error)
	coats := []*Coat{{Name: "cape"}, {Name: "parka", Matches: &one.ID}, {ID: 5, Name: "mac"}}
	require.NoError(t, db.Create(coats).Error)
	assert.Greater(t, coats[0].ID, one.ID)
	assert.Greater(t, coats[1].ID, coats[0].ID)
	assert.Equal(t, snowflake.ID(5), coats[2].ID, "an ID that is there is kept")
	var found []Coat
	require.NoError(t, db.Order("id").Find(&found, "id IN ?", []snowflake.ID{coats[0].ID, coats[1].ID}).Error)
	assert.Equal(t, []Coat{*coats[0], *coats[1]}, found)
	require.NoError(t, db.First(&found, one.ID).Error)
	assert.Equal(t, []Coat{one}, found)

	// An integer and a string with the tag snowflake are filled, too.
	type Tagged struct {
		ID   int64  `gorm:"primaryKey;autoIncrement:false;check:id > 0;snowflake"`
		Code string `gorm:"size:19;snowflake"`
	}
	require.NoError(t, db.AutoMigrate(&Tagged{}))
	defer db.Migrator().DropTable(&Tagged{})
	tagged := []Tagged{{}, {}}
	require.NoError(t, db.Create(&tagged).Error)
	assert.Greater(t, tagged[1].ID, tagged[0].ID)
	assert.Greater(t, tagged[0].ID, int64(one.ID))
	var stored []Tagged
	require.NoError(t, db.Order("id").Find(&stored).Error)
	assert.Equal(t, tagged, stored)
	_, err = snowflake.ParseID(stored[0].Code)
	assert.NoError(t, err)
}
