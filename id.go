package snowflake

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"reflect"
	"strconv"
)

// ID is a snowflake identifier, never negative. IDs of a Layout sort by time.
//
// Texts of an ID are decimal digits, which do not sort as the IDs do; those of [ID.Base32] do.
// Functions and methods that read an ID accept only the form that they name; otherwise their errors
// match [ErrInvalidID], and a receiver does not change. Methods that write an ID refuse a negative
// one likewise.
type ID int64

// ParseID reads 0 to 1<<63-1 in decimal without sign, spaces or leading zeros.
func ParseID(s string) (ID, error) { return parseDecimal(s) }

// MustParseID is ParseID for constants. It panics if s is not an ID.
func MustParseID(s string) ID {
	id, err := ParseID(s)
	if err != nil {
		panic(err)
	}
	return id
}

// parseDecimal serves strings and bytes, so that neither is copied.
func parseDecimal[T string | []byte](s T) (ID, error) {
	if len(s) == 0 {
		return 0, parseError("decimal", s, "it is empty")
	}
	if s[0] == '0' && len(s) > 1 {
		return 0, parseError("decimal", s, "it has a leading zero")
	}
	var v uint64
	for i := range len(s) {
		d := uint64(s[i] - '0')
		if d > 9 {
			return 0, parseError("decimal", s, "it has a character that is not a digit")
		}
		if v > math.MaxInt64/10 || v*10 > math.MaxInt64-d {
			return 0, parseError("decimal", s, "it is over 9223372036854775807")
		}
		v = v*10 + d
	}
	return ID(v), nil
}

// parseError quotes only the start of the text, which may be long and hostile.
func parseError[T string | []byte](form string, s T, why string) error {
	const most = 32
	more := ""
	if len(s) > most {
		s, more = s[:most], "..."
	}
	return fmt.Errorf("%w: %s %q%s: %s", ErrInvalidID, form, string(s), more, why)
}

// String returns id in decimal.
func (id ID) String() string {
	return strconv.FormatInt(int64(id), 10)
}

// AppendText appends id in decimal to b.
func (id ID) AppendText(b []byte) ([]byte, error) {
	if id < 0 {
		return b, fmt.Errorf("%w: %d is negative", ErrInvalidID, int64(id))
	}
	return strconv.AppendInt(b, int64(id), 10), nil
}

// MarshalText returns id in decimal.
func (id ID) MarshalText() ([]byte, error) {
	return id.AppendText(make([]byte, 0, decimalMax))
}

// UnmarshalText reads what ParseID reads.
func (id *ID) UnmarshalText(b []byte) error {
	v, err := parseDecimal(b)
	if err != nil {
		return err
	}
	*id = v
	return nil
}

// MarshalBinary is MarshalText for go-redis, encoding/gob and others.
func (id ID) MarshalBinary() ([]byte, error) { return id.MarshalText() }

// UnmarshalBinary is UnmarshalText for what MarshalBinary returned.
func (id *ID) UnmarshalBinary(b []byte) error { return id.UnmarshalText(b) }

// UnmarshalParam is UnmarshalText for parameters of gin and echo.
func (id *ID) UnmarshalParam(s string) error { return id.UnmarshalText([]byte(s)) }

// Bind is UnmarshalText for parameters of code that oapi-codegen generated.
func (id *ID) Bind(s string) error { return id.UnmarshalText([]byte(s)) }

// MarshalGQL writes id for gqlgen, as a string, or null if id is negative.
func (id ID) MarshalGQL(w io.Writer) {
	text := "null"
	if id >= 0 {
		text = `"` + id.String() + `"`
	}
	_, _ = io.WriteString(w, text)
}

// UnmarshalGQL reads a value for gqlgen: a text that ParseID reads, or an integer, but not a
// float64, which may have been rounded.
func (id *ID) UnmarshalGQL(v any) error { return id.fromValue(v) }

// UnmarshalMapstructure is UnmarshalGQL for mapstructure 2.5 and later.
func (id *ID) UnmarshalMapstructure(v any) error { return id.fromValue(v) }

func (id *ID) fromValue(v any) error {
	if p, ok := v.(*ID); ok && p != nil { // from mapstructure's hook for TextUnmarshalers
		v = *p
	}
	switch r := reflect.ValueOf(v); {
	case r.Kind() == reflect.String: // a json.Number, too
		return id.UnmarshalText([]byte(r.String()))
	case r.CanInt():
		return id.Scan(r.Int())
	case r.CanUint():
		return id.Scan(r.Uint())
	}
	return fmt.Errorf("%w: the value has type %T; it must be a text or an integer", ErrInvalidID, v)
}

// JSONSchemaAlias tells invopop/jsonschema that an ID is a string.
func (ID) JSONSchemaAlias() any { return "" }

// UnmarshalJSON reads a string that ParseID reads, written without escapes, or an integer without
// sign, fraction or exponent. Null does not change id.
func (id *ID) UnmarshalJSON(b []byte) error {
	if bytes.Equal(b, []byte("null")) {
		return nil
	}
	if n := len(b); n >= 2 && b[0] == '"' && b[n-1] == '"' {
		return id.UnmarshalText(b[1 : n-1])
	}
	if len(b) == 0 || b[0]-'0' > 9 {
		return parseError("JSON", b, "it is neither a string nor an integer without a sign")
	}
	return id.UnmarshalText(b)
}

// Scan reads an integer column, or a text that ParseID reads. If the column may be NULL, scan into
// a **ID or a sql.Null[ID].
func (id *ID) Scan(src any) error {
	switch v := src.(type) {
	case int64:
		if v < 0 {
			return fmt.Errorf("%w: %d is negative", ErrInvalidID, v)
		}
		*id = ID(v)
		return nil
	case string:
		return id.UnmarshalText([]byte(v))
	case []byte:
		return id.UnmarshalText(v)
	case uint64: // from some drivers, if the column is unsigned
		if v > math.MaxInt64 {
			return fmt.Errorf("%w: %d is over 9223372036854775807", ErrInvalidID, v)
		}
		*id = ID(v)
		return nil
	case nil:
		return fmt.Errorf("%w: the column is NULL; scan into *ID or sql.Null[ID]", ErrInvalidID)
	}
	return fmt.Errorf("%w: the column has type %T; it must be an integer or a text", ErrInvalidID, src)
}

// UnmarshalBSONValue reads a value for version 2 of MongoDB's driver: an integer, a text that
// ParseID reads, or a double that is a whole number below 2^53, because a greater one may have been
// rounded. Null makes id 0, as it does the driver's integers.
func (id *ID) UnmarshalBSONValue(typ byte, data []byte) error {
	const double, text, null, int32Type, int64Type = 0x01, 0x02, 0x0a, 0x10, 0x12
	switch n := len(data); {
	case typ == int64Type && n == 8:
		return id.Scan(int64(binary.LittleEndian.Uint64(data)))
	case typ == int32Type && n == 4:
		return id.Scan(int64(int32(binary.LittleEndian.Uint32(data))))
	case typ == text && n >= 5: // a length of 4 bytes, the text, and a zero byte
		return id.UnmarshalText(data[4 : n-1])
	case typ == double && n == 8:
		f := math.Float64frombits(binary.LittleEndian.Uint64(data))
		if f >= 0 && f < 1<<53 && f == math.Trunc(f) {
			return id.Scan(int64(f))
		}
		return fmt.Errorf("%w: the double %s is not a whole number from 0 to 9007199254740991; a greater one may have been rounded: store a long",
			ErrInvalidID, strconv.FormatFloat(f, 'f', -1, 64))
	case typ == null:
		*id = 0
		return nil
	}
	return fmt.Errorf("%w: the value has BSON type 0x%02x and length %d; it must be an integer or a text", ErrInvalidID, typ, len(data))
}

// The digits of base 32 and base 62 are in ASCII order, so that texts of one length
// sort as their numbers do.
const (
	base32Digits = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
	base58Digits = "123456789abcdefghijkmnopqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ"
	base62Digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

	decimalMax = 19
	base32Len  = 13 // 32^13 > 2^64
	base58Max  = 11 // 58^11 > 2^64
	base62Len  = 11 // 62^11 > 2^64

	// The first digits of the largest ID.
	base32First = math.MaxInt64 / (1 << 60)
	base58First = math.MaxInt64 / (58 * 58 * 58 * 58 * 58 * 58 * 58 * 58 * 58 * 58)
	base62First = math.MaxInt64 / (62 * 62 * 62 * 62 * 62 * 62 * 62 * 62 * 62 * 62)
)

var (
	base32Values = digitValues(base32Digits)
	base58Values = digitValues(base58Digits)
	base62Values = digitValues(base62Digits)
)

const noDigit = 0xff

func digitValues(digits string) (values [256]byte) {
	for i := range values {
		values[i] = noDigit
	}
	for i := range len(digits) {
		values[digits[i]] = byte(i)
	}
	return values
}

// Base32 returns id in Crockford's base 32: 13 characters that sort as IDs do.
func (id ID) Base32() string {
	var b [base32Len]byte
	v := uint64(id)
	for i := base32Len - 1; i >= 0; i-- {
		b[i] = base32Digits[v%32]
		v /= 32
	}
	return string(b[:])
}

// Base58 returns id in base 58: 1 to 11 characters of bwmarrin/snowflake's alphabet, in which small
// letters come before capitals. They do not sort as IDs do.
//
// HAZARD: if the text is a key, use a binary collation. Otherwise half of the rows are lost if a
// equals A, as by default in MariaDB and MySQL.
func (id ID) Base58() string {
	var b [base58Max]byte
	v, i := uint64(id), base58Max
	for {
		i--
		b[i] = base58Digits[v%58]
		if v /= 58; v == 0 {
			return string(b[i:])
		}
	}
}

// Base62 returns id in base 62: 11 characters of 0-9A-Za-z that sort as the IDs do. The HAZARD of
// [ID.Base58] holds here, too.
func (id ID) Base62() string {
	var b [base62Len]byte
	v := uint64(id)
	for i := base62Len - 1; i >= 0; i-- {
		b[i] = base62Digits[v%62]
		v /= 62
	}
	return string(b[:])
}

// ParseBase32 reads the text of [ID.Base32], without small letters, I, L and O.
func ParseBase32(s string) (ID, error) {
	if len(s) != base32Len {
		return 0, parseError("base 32", s, "it is not 13 characters")
	}
	v, all := readBase(s, 32, &base32Values)
	if !isID(v, all, s, base32Len, base32First, &base32Values) {
		return 0, baseError("base 32", s, &base32Values)
	}
	return ID(v), nil
}

// ParseBase58 reads the text of [ID.Base58], without leading zeros, written 1.
func ParseBase58(s string) (ID, error) {
	if len(s) == 0 || len(s) > base58Max {
		return 0, parseError("base 58", s, "it is not 1 to 11 characters")
	}
	if len(s) > 1 && s[0] == base58Digits[0] {
		return 0, parseError("base 58", s, "it has a leading 1, which is a zero here")
	}
	v, all := readBase(s, 58, &base58Values)
	if !isID(v, all, s, base58Max, base58First, &base58Values) {
		return 0, baseError("base 58", s, &base58Values)
	}
	return ID(v), nil
}

// ParseBase62 reads the text of [ID.Base62].
func ParseBase62(s string) (ID, error) {
	if len(s) != base62Len {
		return 0, parseError("base 62", s, "it is not 11 characters")
	}
	v, all := readBase(s, 62, &base62Values)
	if !isID(v, all, s, base62Len, base62First, &base62Values) {
		return 0, baseError("base 62", s, &base62Values)
	}
	return ID(v), nil
}

// readBase reads digits, two at a time, because each multiplication waits for the previous one. all
// is the OR of the digits' values: only noDigit sets the highest bits. The function is small enough
// to be inlined, which makes base a constant.
func readBase(s string, base uint64, values *[256]byte) (v uint64, all byte) {
	i := len(s) % 2
	if i > 0 {
		all = values[s[0]]
		v = uint64(all)
	}
	for ; i+1 < len(s); i += 2 {
		c, d := values[s[i]], values[s[i+1]]
		v, all = v*(base*base)+uint64(c)*base+uint64(d), all|c|d
	}
	return v, all
}

// isID reports whether the result of readBase for s is an ID. Fewer than full digits always are. A
// number of full digits is an ID, and did not overflow v, only if its first digit is at most first,
// which is MaxInt64/base^(full-1).
func isID(v uint64, all byte, s string, full int, first byte, values *[256]byte) bool {
	return all != noDigit && v <= math.MaxInt64 && (len(s) < full || values[s[0]] <= first)
}

// baseError says why readBase refuses s.
func baseError(form, s string, values *[256]byte) error {
	for i := range len(s) {
		if values[s[i]] == noDigit {
			return parseError(form, s, "it has a character outside of the alphabet")
		}
	}
	return parseError(form, s, "it is over 9223372036854775807")
}
