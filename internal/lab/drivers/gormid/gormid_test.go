// Package gormid_test tests module gormid with a driver, which the module itself does not require.
package gormid_test

import (
	"context"
	"errors"
	"reflect"
	"strings"
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

// Tagged has a key of any type.
type Tagged[T any] struct {
	Key  T `gorm:"primaryKey;autoIncrement:false;snowflake"`
	Name string
}

func (Tagged[T]) TableName() string {
	return "tagged_" + strings.Trim(strings.NewReplacer("*", "p", ".", "_", "[]", "s").Replace(reflect.TypeFor[T]().String()), "_")
}

type (
	Number int64
	Code   string
)

type Pointed struct {
	ID   *snowflake.ID `gorm:"primaryKey;autoIncrement:false"`
	Name string
}

// Second has a tagged key in addition to the primary key.
type Second struct {
	ID     uint
	Public string `gorm:"snowflake"`
	Other  string `gorm:"snowflake:false"`
}

// Member has a key of two IDs, of which the plugin can fill neither.
type Member struct {
	CoatID  snowflake.ID    `gorm:"primaryKey;autoIncrement:false"`
	Coat    *Coat           `gorm:"-:migration"`
	ScarfID typed.ID[Scarf] `gorm:"primaryKey;autoIncrement:false"`
}

// Part has a key of two IDs, one of which the plugin fills.
type Part struct {
	CoatID snowflake.ID `gorm:"primaryKey;autoIncrement:false"`
	Number snowflake.ID `gorm:"primaryKey;autoIncrement:false;snowflake"`
}

type Untagged struct {
	ID   string
	Name string
}

func open(t *testing.T) *gorm.DB {
	t.Helper()
	db, err := gorm.Open(sqlite.Open(":memory:"), &gorm.Config{Logger: logger.Discard})
	require.NoError(t, err)
	conn, err := db.DB()
	require.NoError(t, err)
	conn.SetMaxOpenConns(1) // each connection has its own database
	t.Cleanup(func() { conn.Close() })
	require.NoError(t, db.AutoMigrate(&Coat{}, &Scarf{}, &Note{}, &Tagged[int]{}, &Tagged[int64]{}, &Tagged[uint]{},
		&Tagged[uint64]{}, &Tagged[string]{},
		&Tagged[Number]{}, &Tagged[Code]{}, &Tagged[snowflake.ID]{}, &Tagged[*int64]{}, &Tagged[*string]{}, &Tagged[*snowflake.ID]{},
		&Tagged[int32]{}, &Tagged[uint8]{}, &Tagged[float64]{}, &Tagged[bool]{}, &Tagged[[]byte]{}, &Pointed{}, &Second{}, &Untagged{}, &Member{}, &Part{}))
	gen, err := snowflake.New(1, nil)
	require.NoError(t, err)
	require.NoError(t, db.Use(gormid.New(gen)))
	return db
}

// issuer is a source of IDs that is not a Generator.
type issuer func(context.Context) (snowflake.ID, error)

func (i issuer) NextIDContext(ctx context.Context) (snowflake.ID, error) { return i(ctx) }

// Any source can issue the IDs, and gets the call's context.
func TestAnyIssuerFillsRows(t *testing.T) {
	type key struct{}
	db := withIDs(t, func(ctx context.Context) (snowflake.ID, error) { return ctx.Value(key{}).(snowflake.ID), nil })
	coat := Coat{Name: "ulster"}
	require.NoError(t, db.WithContext(context.WithValue(t.Context(), key{}, snowflake.ID(42))).Create(&coat).Error)
	assert.EqualValues(t, 42, coat.ID)
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

// filled inserts rows with keys of a type, as structs and as a map, and selects them.
func filled[T any](t *testing.T, db *gorm.DB, id func(T) (snowflake.ID, error), kept T) {
	name := reflect.TypeFor[T]().String()
	one, rows := Tagged[T]{Name: "one"}, []Tagged[T]{{Name: "two"}, {Key: kept, Name: "kept"}, {Name: "three"}}
	require.NoError(t, db.Create(&one).Error, name)
	require.NoError(t, db.Create(&rows).Error, name)
	require.NoError(t, db.Model(&one).Create(map[string]any{"Name": "four"}).Error, name)
	assert.Equal(t, kept, rows[1].Key, "%s: a key that is there is kept", name)
	last, err := id(one.Key)
	require.NoError(t, err, name)
	for _, row := range []string{"two", "three", "four"} {
		var stored Tagged[T]
		require.NoError(t, db.First(&stored, "name = ?", row).Error, name)
		next, err := id(stored.Key)
		require.NoError(t, err, name)
		assert.Greater(t, next, last, "%s: %s", name, row)
		last = next
	}
	var n int64
	require.NoError(t, db.Model(&one).Where(&rows[0]).Count(&n).Error)
	assert.EqualValues(t, 1, n, "%s: the row has the key that was stored", name)
}

func TestTaggedKeysGetIDs(t *testing.T) {
	db := open(t)
	filled(t, db, func(v int) (snowflake.ID, error) { return snowflake.ID(v), nil }, 5)
	filled(t, db, func(v int64) (snowflake.ID, error) { return snowflake.ID(v), nil }, 5)
	filled(t, db, func(v uint) (snowflake.ID, error) { return snowflake.ID(v), nil }, 5)
	filled(t, db, func(v uint64) (snowflake.ID, error) { return snowflake.ID(v), nil }, 5)
	filled(t, db, func(v Number) (snowflake.ID, error) { return snowflake.ID(v), nil }, 5)
	filled(t, db, func(v snowflake.ID) (snowflake.ID, error) { return v, nil }, 5)
	filled(t, db, snowflake.ParseID, "kept")
	filled(t, db, func(v Code) (snowflake.ID, error) { return snowflake.ParseID(string(v)) }, "kept")
	number, text, id := int64(5), "kept", snowflake.ID(5)
	filled(t, db, func(v *int64) (snowflake.ID, error) { return snowflake.ID(*v), nil }, &number)
	filled(t, db, func(v *string) (snowflake.ID, error) { return snowflake.ParseID(*v) }, &text)
	filled(t, db, func(v *snowflake.ID) (snowflake.ID, error) { return *v, nil }, &id)
}

func TestPointerToAnIDIsFilledWithoutATag(t *testing.T) {
	row := Pointed{Name: "ulster"}
	require.NoError(t, open(t).Create(&row).Error)
	require.NotNil(t, row.ID)
	assert.Greater(t, *row.ID, snowflake.ID(1))
}

func TestTaggedFieldAndPrimaryKey(t *testing.T) {
	row := Second{}
	require.NoError(t, open(t).Create(&row).Error)
	assert.EqualValues(t, 1, row.ID, "the database's")
	_, err := snowflake.ParseID(row.Public)
	assert.NoError(t, err)
	assert.Empty(t, row.Other, "the tag says false")
}

// If no ID fits a tagged field, no row is stored.
func TestFieldsThatCannotHoldAnIDAreRefused(t *testing.T) {
	db := open(t)
	for name, row := range map[string]any{
		"int32": &Tagged[int32]{}, "uint8": &Tagged[uint8]{Key: 5}, "float64": &Tagged[float64]{}, "bool": &Tagged[bool]{}, "[]uint8": &Tagged[[]byte]{},
	} {
		err := db.Create(row).Error
		require.ErrorIs(t, err, gorm.ErrInvalidField, name)
		assert.ErrorContains(t, err, ".Key has the tag snowflake and the type "+name+"; it must be an integer of 64 bits or a string")
		var n int64
		require.NoError(t, db.Model(row).Count(&n).Error)
		assert.Zero(t, n)
	}
}

func TestOtherKeysAreTheDatabases(t *testing.T) {
	note := Note{Text: "is numbered"}
	require.NoError(t, open(t).Create(&note).Error)
	assert.Equal(t, uint(1), note.ID)
	row := Untagged{Name: "has a string"}
	require.NoError(t, open(t).Create(&row).Error)
	assert.Empty(t, row.ID)
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

// withIDs opens a database whose plugin uses the source ids.
func withIDs(t *testing.T, ids issuer) *gorm.DB {
	t.Helper()
	db := open(t)
	require.NoError(t, db.Callback().Create().Remove("snowflake:fill"))
	require.NoError(t, db.Callback().Create().Remove("snowflake:check"))
	delete(db.Config.Plugins, "snowflake")
	require.NoError(t, db.Use(gormid.New(ids)))
	return db
}

func TestNoIDIsAskedForAfterAnError(t *testing.T) {
	asked, broken := 0, errors.New("no IDs")
	db := withIDs(t, func(context.Context) (snowflake.ID, error) { asked++; return 0, broken })
	coats := make([]Coat, 100)
	assert.ErrorIs(t, db.Create(&coats).Error, broken)
	assert.Equal(t, 1, asked)
	assert.ErrorIs(t, db.Create([]*Coat{nil, {}}).Error, gorm.ErrInvalidValue)
	assert.Equal(t, 1, asked)
}

func TestZeroInAKeyOfSeveralFieldsIsRefused(t *testing.T) {
	db := open(t)
	for name, row := range map[string]any{
		"none":    &Member{},
		"one":     &Member{CoatID: 5},
		"a value": Member{CoatID: 5},
		"rows":    []*Member{{CoatID: 5, ScarfID: 6}, {CoatID: 5}},
	} {
		err := db.Create(row).Error
		require.ErrorIs(t, err, gorm.ErrInvalidField, name)
		assert.ErrorContains(t, err, "tag one of them", name)
	}
	assert.ErrorIs(t, db.Model(&Member{}).Create(map[string]any{"CoatID": 5}).Error, gorm.ErrInvalidField)
	var n int64
	require.NoError(t, db.Model(&Member{}).Count(&n).Error)
	assert.Zero(t, n)

	require.NoError(t, db.Create(&Member{CoatID: 5, ScarfID: 6}).Error)
	require.NoError(t, db.Model(&Member{}).Create(map[string]any{"CoatID": 5, "scarf_id": 7}).Error)
	member := Member{Coat: &Coat{Name: "its ID is the member's"}, ScarfID: 8}
	require.NoError(t, db.Create(&member).Error)
	assert.Equal(t, member.Coat.ID, member.CoatID)
	part := Part{}
	require.NoError(t, db.Create(&part).Error)
	assert.NotZero(t, part.Number)
}
