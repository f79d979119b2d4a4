// Package typed provides IDs with a type and a prefix. The type tells the compiler what an ID
// names, so that the ID of a user cannot be passed as the ID of an order. The prefix tells people.
//
//	type Order struct {
//		ID OrderID
//		// ...
//	}
//
//	func (Order) Prefix() string { return "order" }
//
//	type OrderID = typed.ID[Order]
//
//	id := typed.New[Order](next)             // next: a snowflake.ID
//	id.String()                              // order_038ANTKF00000
//	id, err := typed.Parse[Order](text)      // refuses user_038ANTKF00000
//	id.ID()                                  // the snowflake.ID
//
// The text is the prefix, an underscore and the ID as [snowflake.ID.Base32] writes it: always 13
// characters in capitals. So texts with the same prefix sort as the IDs do. JSON, XML, YAML, flags,
// logs, and the keys of JSON objects use the text. Like the number, it shows the ID's time and
// worker; package opaque hides them. Parsers are strict; [Fold] helps to read a text that a person
// retyped.
//
// A database uses the number: as a parameter of database/sql an ID is an int64, for a BIGINT
// column, and Scan reads it back. So a column can change from snowflake.ID to a typed ID, and back,
// without a migration.
//
// [Any] is for code that learns the prefix at run time.
package typed

import (
	"bytes"
	"database/sql/driver"
	"fmt"
	"io"
	"strings"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/prefix"
)

// Prefixer is implemented by the types of the things that IDs name, for example the struct of a
// table's rows. Prefix is called on the zero value of the type, and must always return the same
// text: 1 to 63 of a-z, 0-9 and underscores, with a letter first and no underscore last. Use Order
// as the type, not *Order: the zero value of a pointer is nil, for which a Prefix with a value
// receiver panics.
type Prefixer interface {
	Prefix() string
}

// ID is the ID of a T. IDs of different types cannot be assigned or compared with each
// other; IDs of one type compare with == and <, and order by time.
type ID[T Prefixer] int64

// New returns id as the ID of a T.
func New[T Prefixer](id snowflake.ID) ID[T] { return ID[T](id) }

// ID returns the ID without its type.
func (id ID[T]) ID() snowflake.ID { return snowflake.ID(id) }

// Any returns the ID with its prefix, without its type.
func (id ID[T]) Any() Any {
	var t T
	return Any{t.Prefix(), id.ID()}
}

// Parse reads the text that [ID.String] returns. If the text is anything else, or
// has another prefix, the error matches [snowflake.ErrInvalidID]. If T has a prefix
// that no text can have, it matches [snowflake.ErrInvalidOptions].
func Parse[T Prefixer](text string) (ID[T], error) {
	var t T
	want := t.Prefix()
	if err := checkPrefix(want); err != nil {
		return 0, fmt.Errorf("%T: %w", t, err)
	}
	a, err := ParseAny(text)
	if err != nil {
		return 0, fmt.Errorf("%w; it should be %s_ and 13 characters", err, want)
	}
	if a.Prefix != want {
		return 0, fmt.Errorf("%w: %s has the prefix %s_, it should be %s_", snowflake.ErrInvalidID, text, a.Prefix, want)
	}
	return ID[T](a.ID), nil
}

// Fold returns a text that a person typed in the form that Parse, ParseAny and the
// Unmarshal methods read, which are strict:
//
//	id, err := typed.Parse[Order](typed.Fold("Order_o38antkfooooo")) // order_038ANTKF00000
//
// It turns the prefix into small letters, and the 13 characters into capitals. Among the latter it
// turns I and L into 1, and O into 0, since Crockford's base 32 has no I, L and O. It removes
// spaces at both ends. If the text is not that of an ID, the parsers still refuse it.
func Fold(text string) string {
	folded := []byte(strings.TrimSpace(text))
	i := bytes.LastIndexByte(folded, '_') + 1
	for j, c := range folded { // only ASCII: in Unicode, the lower case of a Kelvin sign is a k
		if j < i && 'A' <= c && c <= 'Z' || j >= i && 'a' <= c && c <= 'z' {
			folded[j] ^= 'a' - 'A'
		}
	}
	return string(folded[:i]) + misread.Replace(string(folded[i:]))
}

var misread = strings.NewReplacer("I", "1", "L", "1", "O", "0")

// String returns the prefix, an underscore and 13 characters. It does so even if Parse would refuse
// the prefix or the ID; MarshalText returns an error for them.
func (id ID[T]) String() string { return id.Any().String() }

// AppendText appends the text of id to b. If id is negative, the error matches
// [snowflake.ErrInvalidID]. If T has a prefix that no text can have, it matches
// [snowflake.ErrInvalidOptions].
func (id ID[T]) AppendText(b []byte) ([]byte, error) { return id.Any().AppendText(b) }

// MarshalText returns the text of id, or AppendText's error.
func (id ID[T]) MarshalText() ([]byte, error) { return id.Any().MarshalText() }

// UnmarshalText reads the texts that [Parse] reads. If there is an error, id does
// not change. In JSON, a number is refused, because it has no prefix. If the value
// is null, encoding/json leaves id unchanged, as it does for every such type.
func (id *ID[T]) UnmarshalText(b []byte) error { return id.UnmarshalParam(string(b)) }

// MarshalBinary returns what MarshalText returns. It is used by go-redis, encoding/gob and other
// encodings that prefer it to the number.
func (id ID[T]) MarshalBinary() ([]byte, error) { return id.MarshalText() }

// UnmarshalBinary reads what MarshalBinary returned, as UnmarshalText does.
func (id *ID[T]) UnmarshalBinary(b []byte) error { return id.UnmarshalText(b) }

// UnmarshalParam reads a query or path parameter that gin or echo binds, as UnmarshalText does.
func (id *ID[T]) UnmarshalParam(s string) error {
	v, err := Parse[T](s)
	if err != nil {
		return err
	}
	*id = v
	return nil
}

// Bind reads a parameter for code that oapi-codegen generated, as UnmarshalText does.
func (id *ID[T]) Bind(s string) error { return id.UnmarshalParam(s) }

// MarshalGQL writes the text of id for gqlgen, as a string. If MarshalText returns an error, it
// writes null.
func (id ID[T]) MarshalGQL(w io.Writer) {
	b, err := id.MarshalText()
	if err != nil {
		_, _ = io.WriteString(w, "null")
		return
	}
	_, _ = fmt.Fprintf(w, `"%s"`, b)
}

// UnmarshalGQL reads an argument or a variable of gqlgen: a text that Parse reads. If v is anything
// else, the error matches [snowflake.ErrInvalidID], and id does not change.
func (id *ID[T]) UnmarshalGQL(v any) error { return id.fromValue(v) }

// UnmarshalMapstructure reads a value of a configuration, as UnmarshalGQL does. It is used by
// mapstructure 2.5 and later, which otherwise reads only numbers.
func (id *ID[T]) UnmarshalMapstructure(v any) error { return id.fromValue(v) }

func (id *ID[T]) fromValue(v any) error {
	if p, ok := v.(*ID[T]); ok && p != nil { // from mapstructure's hook for TextUnmarshalers
		v = *p
	}
	switch v := v.(type) {
	case string:
		return id.UnmarshalParam(v)
	case ID[T]:
		*id = v
		return nil
	}
	var t T
	return fmt.Errorf("%w: the value has type %T; it must be a text with the prefix %s_", snowflake.ErrInvalidID, v, t.Prefix())
}

// JSONSchemaAlias returns a string, because in JSON an ID is one. It is used by
// invopop/jsonschema.
func (ID[T]) JSONSchemaAlias() any { return "" }

// Scan reads the columns that [snowflake.ID.Scan] reads. They hold the number, not the text. If the
// column may be NULL, scan into a **ID or a sql.Null[ID].
func (id *ID[T]) Scan(src any) error { return about[T]((*snowflake.ID)(id).Scan(src)) }

// UnmarshalBSONValue reads the values of MongoDB that [snowflake.ID.UnmarshalBSONValue] reads. They
// hold the number, as the columns of a database do.
func (id *ID[T]) UnmarshalBSONValue(typ byte, data []byte) error {
	return about[T]((*snowflake.ID)(id).UnmarshalBSONValue(typ, data))
}

// about adds to an error which type's ID it is about.
func about[T Prefixer](err error) error {
	if err == nil {
		return nil
	}
	var t T
	return fmt.Errorf("an ID of %T: %w", t, err)
}

// Any is an ID with a prefix that the compiler does not know, for example from a search field that
// takes texts of any kind.
type Any struct {
	Prefix string
	ID     snowflake.ID
}

const idLen = 13 // of snowflake.ID.Base32

// ParseAny reads a text with any prefix. If it is not the text of an ID, the error
// matches [snowflake.ErrInvalidID].
func ParseAny(text string) (Any, error) {
	i := strings.LastIndexByte(text, '_')
	if i < 0 {
		return Any{}, fmt.Errorf("%w: %s has no prefix", snowflake.ErrInvalidID, quote(text))
	}
	if why := prefix.Wrong(text[:i]); why != "" {
		return Any{}, fmt.Errorf("%w: the prefix of %s %s", snowflake.ErrInvalidID, quote(text), why)
	}
	id, err := snowflake.ParseBase32(text[i+1:])
	if err != nil {
		return Any{}, fmt.Errorf("after the prefix %s_: %w", text[:i], err)
	}
	return Any{text[:i], id}, nil
}

// String returns the prefix, an underscore and 13 characters.
func (a Any) String() string { return a.Prefix + "_" + a.ID.Base32() }

// AppendText appends the text of a to b. If the ID is negative, the error matches
// [snowflake.ErrInvalidID]. If ParseAny would refuse the prefix, it matches
// [snowflake.ErrInvalidOptions].
func (a Any) AppendText(b []byte) ([]byte, error) {
	if err := checkPrefix(a.Prefix); err != nil {
		return b, err
	}
	if a.ID < 0 {
		return b, a.negative()
	}
	b = append(append(b, a.Prefix...), '_')
	return append(b, a.ID.Base32()...), nil
}

// MarshalText returns the text of a, or AppendText's error.
func (a Any) MarshalText() ([]byte, error) {
	return a.AppendText(make([]byte, 0, len(a.Prefix)+1+idLen))
}

// UnmarshalText reads the texts that [ParseAny] reads. If there is an error, a does
// not change.
func (a *Any) UnmarshalText(b []byte) error {
	v, err := ParseAny(string(b))
	if err != nil {
		return err
	}
	*a = v
	return nil
}

// MarshalBinary returns what MarshalText returns.
func (a Any) MarshalBinary() ([]byte, error) { return a.MarshalText() }

// UnmarshalBinary reads what MarshalBinary returned, as UnmarshalText does.
func (a *Any) UnmarshalBinary(b []byte) error { return a.UnmarshalText(b) }

// UnmarshalParam reads a query or path parameter that gin or echo binds, as UnmarshalText does.
func (a *Any) UnmarshalParam(s string) error { return a.UnmarshalText([]byte(s)) }

// Value returns a as a parameter of database/sql: its number, without the prefix, for the columns
// that hold an [ID]. If the ID is negative, the error matches [snowflake.ErrInvalidID].
func (a Any) Value() (driver.Value, error) {
	if a.ID < 0 {
		return nil, a.negative()
	}
	return int64(a.ID), nil
}

func (a Any) negative() error {
	return fmt.Errorf("%w: %s_%d is negative", snowflake.ErrInvalidID, a.Prefix, int64(a.ID))
}

func checkPrefix(p string) error {
	if why := prefix.Wrong(p); why != "" {
		return fmt.Errorf("%w: typed: the prefix %s %s", snowflake.ErrInvalidOptions, quote(p), why)
	}
	return nil
}

// quote quotes only the start of a text, which may be long and hostile.
func quote(text string) string {
	const most = 32
	if len(text) > most {
		return fmt.Sprintf("%q...", text[:most])
	}
	return fmt.Sprintf("%q", text)
}
