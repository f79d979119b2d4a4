// Package gormid fills keys of GORM with IDs.
//
//	err := db.Use(gormid.New(gen))
//
// A row without an ID then gets one before GORM inserts it. Two kinds of fields are filled:
//
//   - a primary key whose type is snowflake.ID or a typed.ID;
//   - a field with the tag gorm:"snowflake" whose type is an integer of 64 bits or a string, such
//     as int64, uint64 or a type of your own. A string gets the ID in decimal; such strings do not
//     sort as the numbers do.
//
// The field can be a pointer, and a row can be a struct or a map[string]any. If a field with the
// tag has another type, the call that creates the row returns an error that matches
// gorm.ErrInvalidField. If a struct was passed by value, it cannot get an ID, and the error matches
// gorm.ErrInvalidValue.
//
// If a primary key has several fields and none of them is called ID, only those with the tag are
// filled. If none has the tag, a row in which one of these IDs is 0 is refused with
// gorm.ErrInvalidField.
//
// HAZARD: a key that is an int64, a uint64 or a string and has no tag is not filled: the database
// numbers the rows 1, 2, 3, and a string stays empty.
//
// HAZARD: if the primary key is an integer, GORM lets the database number the rows. A row that
// another program inserts without an ID then silently gets 1, 2, 3. With these tags PostgreSQL,
// MySQL and MariaDB refuse such a row; SQLite numbers it nevertheless:
//
//	ID snowflake.ID `gorm:"primaryKey;autoIncrement:false;check:id > 0"`
//	ID int64        `gorm:"primaryKey;autoIncrement:false;check:id > 0;snowflake"`
package gormid

import (
	"context"
	"fmt"
	"reflect"
	"slices"

	"gorm.io/gorm"
	"gorm.io/gorm/schema"
	"gorm.io/gorm/utils"

	"github.com/seed-5394e6b1/snowflake"
)

// Issuer issues IDs: a [snowflake.Generator], a client of package server/client, or a Sequencer of
// redislease.
type Issuer interface {
	NextIDContext(context.Context) (snowflake.ID, error)
}

// New returns a plugin for [gorm.DB.Use], which takes IDs from ids. If ids returns an error, so
// does the call that creates the row.
func New(ids Issuer) gorm.Plugin { return plugin{ids} }

type plugin struct{ ids Issuer }

func (plugin) Name() string { return "snowflake" }

func (p plugin) Initialize(db *gorm.DB) error {
	if err := db.Callback().Create().Before("gorm:create").Register("snowflake:check", check); err != nil {
		return err
	}
	return db.Callback().Create().Before("gorm:before_create").Register("snowflake:fill", p.fill)
}

// fill gives the rows of a statement their IDs.
func (p plugin) fill(db *gorm.DB) {
	if db.Error != nil || db.Statement.Schema == nil {
		return
	}
	keys, err := keysOf(db.Statement.Schema)
	if err != nil {
		db.AddError(err)
		return
	}
	for _, key := range keys {
		eachRow(db, func(row reflect.Value) { p.fillRow(db, key, row) })
	}
}

// eachRow calls f with the rows of a statement, until there is an error.
func eachRow(db *gorm.DB, f func(row reflect.Value)) {
	switch rows := db.Statement.ReflectValue; rows.Kind() {
	case reflect.Slice, reflect.Array:
		for i := 0; i < rows.Len() && db.Error == nil; i++ {
			f(reflect.Indirect(rows.Index(i)))
		}
	default:
		if db.Error == nil {
			f(rows)
		}
	}
}

// check refuses rows with an ID that is 0 in a key of several fields, none of which is filled. It
// runs after hooks and associations have set fields.
func check(db *gorm.DB) {
	s := db.Statement.Schema
	if s == nil || s.PrioritizedPrimaryField != nil || slices.ContainsFunc(s.PrimaryFields, tagged) {
		return
	}
	for _, key := range s.PrimaryFields {
		if !isID(key.IndirectFieldType) {
			continue
		}
		eachRow(db, func(row reflect.Value) {
			if zero, _ := slotOf(db.Statement.Context, key, row); zero {
				db.AddError(fmt.Errorf("%w: gormid: %s.%s is 0 in a primary key of several fields; tag one of them with gorm:\"snowflake\"",
					gorm.ErrInvalidField, s.Name, key.Name))
			}
		})
	}
}

// tagged reports whether f has the tag.
func tagged(f *schema.Field) bool { return utils.CheckTruth(f.TagSettings["SNOWFLAKE"]) }

// keysOf returns the fields of s that get IDs.
func keysOf(s *schema.Schema) (keys []*schema.Field, err error) {
	for _, f := range s.Fields {
		switch {
		case tagged(f):
			if !canHold(f.IndirectFieldType) {
				return nil, fmt.Errorf("%w: gormid: %s.%s has the tag snowflake and the type %v; "+
					"it must be an integer of 64 bits or a string",
					gorm.ErrInvalidField, s.Name, f.Name, f.FieldType)
			}
			keys = append(keys, f)
		case f == s.PrioritizedPrimaryField && isID(f.IndirectFieldType):
			keys = append(keys, f)
		}
	}
	return keys, nil
}

// isID reports whether t is a type of IDs: snowflake.ID, or a typed ID.
func isID(t reflect.Type) bool {
	return t == reflect.TypeFor[snowflake.ID]() ||
		t.Kind() == reflect.Int64 && t.Implements(reflect.TypeFor[interface{ ID() snowflake.ID }]())
}

// canHold reports whether every ID fits t.
func canHold(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Int, reflect.Int64, reflect.Uint, reflect.Uint64:
		return t.Bits() == 64
	}
	return t.Kind() == reflect.String
}

// valueOf returns id as a value of t, which can hold it or points to a type that can.
func valueOf(id snowflake.ID, t reflect.Type) any {
	v := reflect.New(t).Elem()
	at := v
	for at.Kind() == reflect.Pointer {
		at.Set(reflect.New(at.Type().Elem()))
		at = at.Elem()
	}
	switch {
	case at.CanInt():
		at.SetInt(int64(id))
	case at.CanUint():
		at.SetUint(uint64(id))
	default:
		at.SetString(id.String())
	}
	return v.Interface()
}

func (p plugin) fillRow(db *gorm.DB, key *schema.Field, row reflect.Value) {
	ctx := db.Statement.Context
	zero, set := slotOf(ctx, key, row)
	switch {
	case set == nil:
		db.AddError(gorm.ErrInvalidValue)
	case zero:
		id, err := p.ids.NextIDContext(ctx)
		if err == nil {
			err = set(valueOf(id, key.FieldType))
		}
		db.AddError(err)
	}
}

// slotOf reports whether row has no ID for key, and returns a function that sets it, or nil if row
// is nil or a struct that was not passed by a pointer.
func slotOf(ctx context.Context, key *schema.Field, row reflect.Value) (zero bool, set func(id any) error) {
	switch {
	case row.Kind() == reflect.Map && row.Type() == reflect.TypeFor[map[string]any]() && !row.IsNil():
		m := row.Interface().(map[string]any)
		return m[key.Name] == nil && m[key.DBName] == nil, func(id any) error { m[key.Name] = id; return nil }
	case row.Kind() == reflect.Struct:
		_, zero = key.ValueOf(ctx, row)
		if row.CanSet() {
			set = func(id any) error { return key.Set(ctx, row, id) }
		}
	}
	return zero, set
}
