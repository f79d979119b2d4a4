// Package gormid fills primary keys of GORM with IDs.
//
//	err := db.Use(gormid.New(gen))
//
// From then on, if a row has no ID, and its primary key is a snowflake.ID or a typed.ID, it gets an ID before GORM inserts
// it. A row can be a struct or a map[string]any. If a struct was passed by value, it cannot get an ID, and
// gorm.ErrInvalidValue is returned.
//
// HAZARD: if the primary key is an integer, GORM lets the database number the rows. Then a row that another program inserts
// without an ID silently gets 1, 2, 3. With this tag PostgreSQL, MySQL and MariaDB refuse such a row; SQLite numbers it
// nevertheless:
//
//	ID snowflake.ID `gorm:"primaryKey;autoIncrement:false;check:id > 0"`
package gormid

import (
	"reflect"

	"gorm.io/gorm"
	"gorm.io/gorm/schema"

	"github.com/seed-5394e6b1/snowflake"
)

// New returns a plugin for [gorm.DB.Use], which takes IDs from gen. If gen returns an error, so does the call that creates
// the row.
func New(gen *snowflake.Generator) gorm.Plugin { return plugin{gen} }

type plugin struct{ gen *snowflake.Generator }

func (plugin) Name() string { return "snowflake" }

func (p plugin) Initialize(db *gorm.DB) error {
	return db.Callback().Create().Before("gorm:before_create").Register("snowflake:fill", p.fill)
}

// fill gives the rows of a statement their IDs.
func (p plugin) fill(db *gorm.DB) {
	if db.Error != nil || db.Statement.Schema == nil {
		return
	}
	key := db.Statement.Schema.PrioritizedPrimaryField
	if key == nil || !isID(key.FieldType) {
		return
	}
	switch rows := db.Statement.ReflectValue; rows.Kind() {
	case reflect.Slice, reflect.Array:
		for i := range rows.Len() {
			p.fillRow(db, key, reflect.Indirect(rows.Index(i)))
		}
	default:
		p.fillRow(db, key, rows)
	}
}

// isID reports whether t is a type of IDs: snowflake.ID, or a typed ID.
func isID(t reflect.Type) bool {
	return t == reflect.TypeFor[snowflake.ID]() ||
		t.Kind() == reflect.Int64 && t.Implements(reflect.TypeFor[interface{ ID() snowflake.ID }]())
}

func (p plugin) fillRow(db *gorm.DB, key *schema.Field, row reflect.Value) {
	ctx, zero := db.Statement.Context, true
	set := func(id snowflake.ID) error { return key.Set(ctx, row, id) }
	switch {
	case row.Kind() == reflect.Map && row.Type() == reflect.TypeFor[map[string]any]() && !row.IsNil():
		m := row.Interface().(map[string]any)
		zero = m[key.Name] == nil && m[key.DBName] == nil
		set = func(id snowflake.ID) error { m[key.Name] = id; return nil }
	case row.Kind() == reflect.Struct && row.CanSet():
		_, zero = key.ValueOf(ctx, row)
	default: // a nil, or a row that was not passed by a pointer
		db.AddError(gorm.ErrInvalidValue)
		return
	}
	if !zero {
		return
	}
	id, err := p.gen.NextIDContext(ctx)
	if err == nil {
		err = set(id)
	}
	db.AddError(err)
}
