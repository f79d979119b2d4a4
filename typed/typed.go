// Package typed provides IDs with a type and a prefix. The type is for the compiler: the ID of a
// user cannot be passed as the ID of an order. The prefix is for people.
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
// The text is the prefix, an underscore and [snowflake.ID.Base32], which is 13 characters in
// capitals. So texts with the same prefix sort as the IDs do. JSON, XML, YAML, flags, logs and the
// keys of JSON objects use the text. Like the number, it shows the ID's time and worker; package
// opaque hides them. Parsers are strict; [Fold] helps to read a text that a person retyped.
//
// A database stores the number: as a parameter of database/sql an ID is an int64, for a BIGINT
// column. So a column can change from snowflake.ID to a typed ID, and back, without a migration.
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

// Prefixer is a type of things that IDs name, for example the struct of a table's rows.
type Prefixer interface {
	// Prefix returns always the same text: 1 to 63 of a-z, 0-9 and underscores, with a letter first
	// and no underscore last. It is called on the zero value of the type. So use Order as the type,
	// not *Order, whose zero value is nil.
	Prefix() string
}

// ID is the ID of a T. IDs of different types cannot be assigned to or compared with each other;
// IDs of one type compare with == and <, and sort by time.
type ID[T Prefixer] int64

// New returns id as the ID of a T.
func New[T Prefixer](id snowflake.ID) ID[T] { return ID[T](id) }

// ID returns the ID without its type.
func (id ID[T]) ID() snowflake.ID { return snowflake.ID(id) }

// Any returns the ID with its prefix instead of its type.
func (id ID[T]) Any() Any {
	var t T
	return Any{t.Prefix(), id.ID()}
}

// Parse reads the text of [ID.String]. If the text is anything else, or has another prefix, the
// error matches [snowflake.ErrInvalidID]. If T's prefix is not allowed, it matches
// [snowflake.ErrInvalidOptions].
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

// Fold returns a text that a person typed in the form that Parse, ParseAny and the Unmarshal
// methods read:
//
//	id, err := typed.Parse[Order](typed.Fold("Order_o38antkfooooo")) // order_038ANTKF00000
//
// It removes spaces at both ends, and turns the prefix into small letters and the 13 characters
// into capitals, of which I and L become 1, and O becomes 0, because Crockford's base 32 does not
// have them.
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

// String returns the prefix, an underscore and 13 characters, even if Parse would refuse the prefix
// or the ID.
func (id ID[T]) String() string { return id.Any().String() }

// AppendText appends the text of id to b. If id is negative, the error matches
// [snowflake.ErrInvalidID]. If T's prefix is not allowed, it matches [snowflake.ErrInvalidOptions].
func (id ID[T]) AppendText(b []byte) ([]byte, error) { return id.Any().AppendText(b) }

// MarshalText returns the text of id, or AppendText's error.
func (id ID[T]) MarshalText() ([]byte, error) { return id.Any().MarshalText() }

// UnmarshalText reads what [Parse] reads. After an error, id does not change. In JSON, a number is
// refused, because it has no prefix, and null changes nothing.
func (id *ID[T]) UnmarshalText(b []byte) error { return id.UnmarshalParam(string(b)) }

// MarshalBinary is MarshalText for go-redis, encoding/gob and others.
func (id ID[T]) MarshalBinary() ([]byte, error) { return id.MarshalText() }

// UnmarshalBinary is UnmarshalText for what MarshalBinary returned.
func (id *ID[T]) UnmarshalBinary(b []byte) error { return id.UnmarshalText(b) }

// UnmarshalParam is UnmarshalText for parameters of gin and echo.
func (id *ID[T]) UnmarshalParam(s string) error {
	v, err := Parse[T](s)
	if err != nil {
		return err
	}
	*id = v
	return nil
}

// Bind is UnmarshalText for parameters of code that oapi-codegen generated.
func (id *ID[T]) Bind(s string) error { return id.UnmarshalParam(s) }

// MarshalGQL writes the text of id for gqlgen, as a string, or null if MarshalText returns an
// error.
func (id ID[T]) MarshalGQL(w io.Writer) {
	b, err := id.MarshalText()
	if err != nil {
		_, _ = io.WriteString(w, "null")
		return
	}
	_, _ = fmt.Fprintf(w, `"%s"`, b)
}

// UnmarshalGQL is UnmarshalText for gqlgen.
func (id *ID[T]) UnmarshalGQL(v any) error { return id.fromValue(v) }

// UnmarshalMapstructure is UnmarshalText for mapstructure 2.5 and later.
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

// JSONSchemaAlias tells invopop/jsonschema that an ID is a string.
func (ID[T]) JSONSchemaAlias() any { return "" }

// Scan reads the columns that [snowflake.ID.Scan] reads, which have the number, not the text. If
// the column may be NULL, scan into a **ID or a sql.Null[ID].
func (id *ID[T]) Scan(src any) error { return about[T]((*snowflake.ID)(id).Scan(src)) }

// UnmarshalBSONValue reads the values that [snowflake.ID.UnmarshalBSONValue] reads, which have the
// number, not the text.
func (id *ID[T]) UnmarshalBSONValue(typ byte, data []byte) error {
	return about[T]((*snowflake.ID)(id).UnmarshalBSONValue(typ, data))
}

// about adds the ID's type to an error.
func about[T Prefixer](err error) error {
	if err == nil {
		return nil
	}
	var t T
	return fmt.Errorf("an ID of %T: %w", t, err)
}

// Any is an ID whose prefix is known only at run time, for example from a search field for texts of
// any kind.
type Any struct {
	Prefix string
	ID     snowflake.ID
}

const idLen = 13 // of snowflake.ID.Base32

// ParseAny reads a text with any prefix. If it is not the text of an ID, the error matches
// [snowflake.ErrInvalidID].
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

// UnmarshalText reads what [ParseAny] reads. After an error, a does not change.
func (a *Any) UnmarshalText(b []byte) error {
	v, err := ParseAny(string(b))
	if err != nil {
		return err
	}
	*a = v
	return nil
}

// MarshalBinary is MarshalText.
func (a Any) MarshalBinary() ([]byte, error) { return a.MarshalText() }

// UnmarshalBinary is UnmarshalText for what MarshalBinary returned.
func (a *Any) UnmarshalBinary(b []byte) error { return a.UnmarshalText(b) }

// UnmarshalParam is UnmarshalText for parameters of gin and echo.
func (a *Any) UnmarshalParam(s string) error { return a.UnmarshalText([]byte(s)) }

// Value returns a's number as a parameter of database/sql. If it is negative, the error matches
// [snowflake.ErrInvalidID].
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
