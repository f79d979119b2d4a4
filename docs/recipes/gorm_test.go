//go:build unix

package recipes

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/driver/mysql"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/gormid"
	"github.com/seed-5394e6b1/snowflake/typed"
)

func openGORMPostgres(t *testing.T, url string) *gorm.DB { return openGORM(t, postgres.Open(url)) }
func openGORMMySQL(t *testing.T, dsn string) *gorm.DB    { return openGORM(t, mysql.Open(dsn)) }

func openGORM(t *testing.T, dialector gorm.Dialector) *gorm.DB {
	db, err := gorm.Open(dialector, &gorm.Config{Logger: logger.Discard})
	require.NoError(t, err)
	t.Cleanup(func() {
		if conn, err := db.DB(); err == nil {
			conn.Close()
		}
	})
	return db
}

// Hat fills its own ID.
type Hat struct {
	ID   snowflake.ID `gorm:"primaryKey;autoIncrement:false;check:id > 0"`
	Name string
}

func (h *Hat) BeforeCreate(*gorm.DB) (err error) {
	if h.ID == 0 {
		h.ID, err = gen.NextID()
	}
	return err
}

var gen *snowflake.Generator // BeforeCreate has no other way to it

// Coat leaves its ID to the plugin.
type Coat struct {
	ID    snowflake.ID `gorm:"primaryKey;autoIncrement:false;check:id > 0"`
	Name  string
	HatID *snowflake.ID
}

// Scarf does so with a typed ID.
type Scarf struct {
	ID   typed.ID[Scarf] `gorm:"primaryKey;autoIncrement:false;check:id > 0"`
	Name string
}

func (Scarf) Prefix() string { return "scarf" }

func testGORM(t *testing.T, db *gorm.DB) {
	gen = newGenerator(t)
	require.NoError(t, db.AutoMigrate(&Hat{}, &Coat{}, &Scarf{}))
	defer db.Migrator().DropTable(&Hat{}, &Coat{}, &Scarf{})

	// The column is a BIGINT that the database does not number.
	for _, table := range []any{&Hat{}, &Coat{}, &Scarf{}} {
		columns, err := db.Migrator().ColumnTypes(table)
		require.NoError(t, err)
		assert.Equal(t, "id", columns[0].Name())
		assert.Contains(t, []string{"int8", "bigint"}, columns[0].DatabaseTypeName())
		_, hasDefault := columns[0].DefaultValue()
		assert.False(t, hasDefault)
		increments, _ := columns[0].AutoIncrement()
		assert.False(t, increments)
	}

	// What happens without autoIncrement:false.
	type Plain struct {
		ID   snowflake.ID
		Name string
	}
	require.NoError(t, db.AutoMigrate(&Plain{}))
	defer db.Migrator().DropTable(&Plain{})
	plain := Plain{Name: "the ID was forgotten"}
	require.NoError(t, db.Create(&plain).Error)
	assert.Equal(t, snowflake.ID(1), plain.ID, "HAZARD: the database numbered the row")

	// A hook.
	hats := []Hat{{Name: "bowler"}, {Name: "fez"}}
	require.NoError(t, db.Create(&hats).Error)
	assert.Positive(t, hats[0].ID)
	assert.Greater(t, hats[1].ID, hats[0].ID)
	var hat Hat
	require.NoError(t, db.First(&hat, hats[1].ID).Error)
	assert.Equal(t, hats[1], hat)
	require.NoError(t, db.First(&hat, "id IN ?", []snowflake.ID{hats[1].ID}).Error)

	// The CHECK, if the hook or the plugin is forgotten.
	require.Error(t, db.Create(&Coat{Name: "cape"}).Error, "an ID of 0 is refused")
	require.Error(t, db.Create(&[]Coat{{Name: "cape"}}).Error)
	require.Error(t, db.Exec(`INSERT INTO coats (name) VALUES ('cape')`).Error, "and there is no default")

	// The plugin.
	err := db.Use(gormid.New(gen))
	require.NoError(t, err)
	coats := []*Coat{{Name: "cape"}, {Name: "parka", HatID: &hat.ID}, {ID: 5, Name: "mac"}}
	require.NoError(t, db.Create(coats).Error)
	assert.Positive(t, coats[0].ID)
	assert.Greater(t, coats[1].ID, coats[0].ID)
	assert.Equal(t, snowflake.ID(5), coats[2].ID, "an ID that is there is kept")
	one := Coat{Name: "ulster"}
	require.NoError(t, db.Create(&one).Error)
	assert.Greater(t, one.ID, coats[1].ID)
	byValue := []Coat{{Name: "a"}, {Name: "b"}}
	require.NoError(t, db.CreateInBatches(&byValue, 1).Error)
	assert.Greater(t, byValue[1].ID, byValue[0].ID)
	var found []Coat
	require.NoError(t, db.Order("id").Find(&found, []snowflake.ID{coats[0].ID, coats[1].ID}).Error)
	assert.Equal(t, []Coat{*coats[0], *coats[1]}, found)
	require.NoError(t, db.Save(&Coat{Name: "saved"}).Error)
	scarves := []Scarf{{Name: "boa"}, {ID: 5, Name: "stole"}}
	require.NoError(t, db.Create(&scarves).Error)
	assert.Greater(t, scarves[0].ID.ID(), byValue[1].ID)
	assert.Equal(t, typed.New[Scarf](5), scarves[1].ID)
	var scarf Scarf
	require.NoError(t, db.First(&scarf, scarves[0].ID).Error)
	assert.Equal(t, scarves[0], scarf)

	require.NoError(t, db.Model(&Coat{}).Create(map[string]any{"Name": "a map"}).Error)

	// Another key is the database's.
	type Note struct {
		ID   uint
		Text string
	}
	require.NoError(t, db.AutoMigrate(&Note{}))
	defer db.Migrator().DropTable(&Note{})
	note := Note{Text: "has a number of the database's"}
	require.NoError(t, db.Create(&note).Error)
	assert.Equal(t, uint(1), note.ID)
}
