package gormid_test

import (
	"context"
	"testing"

	"github.com/glebarez/sqlite"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/gormid"
	"github.com/seed-5394e6b1/snowflake/typed"
)

type Coat struct {
	ID   snowflake.ID `gorm:"primaryKey;autoIncrement:false;check:id > 0"`
	Name string
}

type Scarf struct {
	ID   typed.ID[Scarf] `gorm:"primaryKey;autoIncrement:false;check:id > 0"`
	Name string
}

func (Scarf) Prefix() string { return "scarf" }

type Note struct {
	ID   uint
	Text string
}

func open(t *testing.T) *gorm.DB {
	t.Helper()
	db, err := gorm.Open(sqlite.Open(":memory:"), &gorm.Config{Logger: logger.Discard})
	require.NoError(t, err)
	conn, err := db.DB()
	require.NoError(t, err)
	conn.SetMaxOpenConns(1) // each connection has a database of its own
	t.Cleanup(func() { conn.Close() })
	require.NoError(t, db.AutoMigrate(&Coat{}, &Scarf{}, &Note{}))
	gen, err := snowflake.New(1, nil)
	require.NoError(t, err)
	require.NoError(t, db.Use(gormid.New(gen)))
	return db
}

func TestRowsGetIDs(t *testing.T) {
	db := open(t)
	one := Coat{Name: "ulster"}
	require.NoError(t, db.Create(&one).Error)
	coats := []*Coat{{Name: "cape"}, {ID: 5, Name: "mac"}, {Name: "parka"}}
	require.NoError(t, db.Create(coats).Error)
	values := []Coat{{Name: "a"}, {Name: "b"}}
	require.NoError(t, db.CreateInBatches(&values, 1).Error)
	saved := Coat{Name: "saved"}
	require.NoError(t, db.Save(&saved).Error)
	assert.Equal(t, snowflake.ID(5), coats[1].ID, "an ID that is there is kept")
	order := []snowflake.ID{5, one.ID, coats[0].ID, coats[2].ID, values[0].ID, values[1].ID, saved.ID}
	assert.IsIncreasing(t, order)
	var stored []snowflake.ID
	require.NoError(t, db.Model(&Coat{}).Order("id").Pluck("id", &stored).Error)
	assert.Equal(t, order, stored)
}

func TestRowsGetTypedIDs(t *testing.T) {
	db := open(t)
	scarves := []Scarf{{Name: "boa"}, {ID: 5, Name: "stole"}}
	require.NoError(t, db.Create(&scarves).Error)
	assert.Greater(t, scarves[0].ID.ID(), snowflake.ID(5))
	assert.Equal(t, typed.New[Scarf](5), scarves[1].ID)
	var scarf Scarf
	require.NoError(t, db.First(&scarf, scarves[0].ID).Error)
	assert.Equal(t, scarves[0], scarf)
}

func TestMapsGetIDs(t *testing.T) {
	db := open(t)
	one := map[string]any{"Name": "ulster"}
	require.NoError(t, db.Model(&Coat{}).Create(one).Error)
	require.NoError(t, db.Model(&Coat{}).Create(&map[string]any{"name": "cape"}).Error)
	kept := []map[string]any{{"id": 5, "Name": "mac"}, {"ID": 6, "Name": "fur"}}
	require.NoError(t, db.Model(&Coat{}).Create(kept).Error)
	assert.NotContains(t, kept[0], "ID", "of two IDs in a map, GORM takes either")
	assert.NotContains(t, kept[1], "id")
	require.NoError(t, db.Model(&Coat{}).Create([]map[string]any{{"Name": "parka"}, {"Name": "anorak"}}).Error)
	var coats []Coat
	require.NoError(t, db.Order("id").Find(&coats).Error)
	require.Len(t, coats, 6)
	assert.Equal(t, []Coat{{5, "mac"}, {6, "fur"}, {one["ID"].(snowflake.ID), "ulster"}}, coats[:3])
	assert.Equal(t, "anorak", coats[5].Name)
}

func TestOtherKeysAreTheDatabases(t *testing.T) {
	note := Note{Text: "is numbered"}
	require.NoError(t, open(t).Create(&note).Error)
	assert.Equal(t, uint(1), note.ID)
}

func TestRowsThatCannotBeSetAreRefused(t *testing.T) {
	db := open(t)
	for name, row := range map[string]any{
		"a value":            Coat{Name: "cape"},
		"an array of values": [1]Coat{{Name: "cape"}},
		"a nil":              []*Coat{{Name: "cape"}, nil},
	} {
		assert.ErrorIs(t, db.Create(row).Error, gorm.ErrInvalidValue, name)
	}
	assert.ErrorIs(t, db.Model(&Coat{}).Create([]map[string]any{{"Name": "cape"}, nil}).Error, gorm.ErrInvalidValue)
	var n int64
	require.NoError(t, db.Model(&Coat{}).Count(&n).Error)
	assert.Zero(t, n)
}

func TestGeneratorsErrorIsReturned(t *testing.T) {
	db := open(t)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	assert.ErrorIs(t, db.WithContext(gone).Create(&Coat{}).Error, context.Canceled)
}
