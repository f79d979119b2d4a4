//go:build go1.25

package snowflake_test

import (
	"bytes"
	"database/sql"
	"database/sql/driver"
	"encoding"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/lab/depth"
)

// textForm is a form of IDs, described for the slow reference.
type textForm struct {
	name   string
	text   func(snowflake.ID) string
	parse  func(string) (snowflake.ID, error)
	digits string
	width  int // 0 without leading zeros
}

var (
	decimal   = textForm{"decimal", snowflake.ID.String, snowflake.ParseID, "0123456789", 0}
	textForms = []textForm{
		decimal,
		{"base 32", snowflake.ID.Base32, snowflake.ParseBase32, "0123456789ABCDEFGHJKMNPQRSTVWXYZ", 13},
		{"base 58", snowflake.ID.Base58, snowflake.ParseBase58, "123456789abcdefghijkmnopqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ", 0},
		{"base 62", snowflake.ID.Base62, snowflake.ParseBase62, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", 11},
	}
)

// decimalReaders read what ParseID reads, and leave the ID as it is if they refuse the text.
var decimalReaders = map[string]func(*snowflake.ID, string) error{
	"UnmarshalText":   func(id *snowflake.ID, s string) error { return id.UnmarshalText([]byte(s)) },
	"UnmarshalBinary": func(id *snowflake.ID, s string) error { return id.UnmarshalBinary([]byte(s)) },
	"UnmarshalParam":  (*snowflake.ID).UnmarshalParam, // of gin and echo
	"Bind":            (*snowflake.ID).Bind,           // of oapi-codegen
	"UnmarshalGQL":    func(id *snowflake.ID, s string) error { return id.UnmarshalGQL(s) },
	"UnmarshalMapstructure": func(id *snowflake.ID, s string) error {
		return id.UnmarshalMapstructure(json.Number(s))
	},
	"UnmarshalJSON":  func(id *snowflake.ID, s string) error { return id.UnmarshalJSON([]byte(`"` + s + `"`)) },
	"Scan of a text": func(id *snowflake.ID, s string) error { return id.Scan(s) },
	"Scan of bytes":  func(id *snowflake.ID, s string) error { return id.Scan([]byte(s)) },
}

// bigDigits are the digits of math/big, in its order.
const bigDigits = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

// slowText is the reference for writing: math/big does the arithmetic.
func slowText(f textForm, v *big.Int) string {
	text := strings.Map(func(r rune) rune {
		return rune(f.digits[strings.IndexRune(bigDigits, r)])
	}, v.Text(len(f.digits)))
	if n := f.width - len(text); n > 0 {
		text = strings.Repeat(f.digits[:1], n) + text
	}
	return text
}

// slowParse is the reference for reading: a text is canonical if the slow writer makes the same
// text from its value.
func slowParse(f textForm, s string) (id snowflake.ID, ok bool) {
	if s == "" || len(s) > 20 {
		return 0, false
	}
	var digits []byte
	for i := range len(s) {
		d := strings.IndexByte(f.digits, s[i])
		if d < 0 {
			return 0, false
		}
		digits = append(digits, bigDigits[d])
	}
	v, ok := new(big.Int).SetString(string(digits), len(f.digits))
	if !ok || !v.IsInt64() || slowText(f, v) != s {
		return 0, false
	}
	return snowflake.ID(v.Int64()), true
}

// tellingIDs returns IDs at which the number of digits or bits changes, and random IDs of every
// length.
func tellingIDs() []snowflake.ID {
	ids := []snowflake.ID{0, 1, math.MaxInt64 - 1, math.MaxInt64}
	for n := range 63 {
		p := snowflake.ID(1) << n
		ids = append(ids, p-1, p, p+1)
	}
	for _, base := range []int64{10, 32, 58, 62} {
		for p := base; p < math.MaxInt64/base; p *= base {
			ids = append(ids, snowflake.ID(p-1), snowflake.ID(p), snowflake.ID(p+1))
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		ids = append(ids, snowflake.ID(rng.Int64()>>rng.IntN(63)))
	}
	return ids
}

func TestTextFormsNeverChange(t *testing.T) {
	tests := []struct {
		id            snowflake.ID
		b32, b58, b62 string
	}{
		{0, "0000000000000", "1", "00000000000"},
		{1, "0000000000001", "2", "00000000001"},
		{57, "000000000001S", "Z", "0000000000v"},
		{58, "000000000001T", "21", "0000000000w"},
		{61, "000000000001X", "24", "0000000000z"},
		{62, "000000000001Y", "25", "00000000010"},
		{1<<53 - 1, "007ZZZZZZZZZZ", "2dknRmrjUF", "00fFgnDxSe7"},
		{175928847299117063, "04W86BB0G4007", "pFLuuKMHer", "0Czks0tP37X"},
		// The base 58 is from bwmarrin/snowflake's tests.
		{1428076403798048768, "17MCBXH480000", "4jgmnx8Js8A", "1hUbVvYD84G"},
		{1541815603606036480, "1ASD13XH1F800", "4zzv4rZaYpj", "1ptWyK4WgZU"},
		{math.MaxInt64, "7ZZZZZZZZZZZZ", "npL6MjP8Qfc", "AzL8n0Y58m7"},
	}
	for _, tt := range tests {
		assert.Equal(t, []string{tt.b32, tt.b58, tt.b62}, []string{tt.id.Base32(), tt.id.Base58(), tt.id.Base62()}, "%d", tt.id)
	}
}

func TestWritersMatchTheSlowReference(t *testing.T) {
	for _, id := range tellingIDs() {
		for _, f := range textForms {
			text := f.text(id)
			require.Equal(t, slowText(f, big.NewInt(int64(id))), text)
			require.True(t, checkText(t, text))
		}
		text, err := id.AppendText([]byte("id="))
		require.NoError(t, err)
		require.Equal(t, "id="+id.String(), string(text))
		for _, marshal := range []func() ([]byte, error){id.MarshalText, id.MarshalBinary} {
			text, err = marshal()
			require.NoError(t, err)
			require.Equal(t, id.String(), string(text))
		}
	}
}

// From gqlgen and mapstructure, integers and texts are read, but not a number that may be rounded.
func TestValuesThatOtherLibrariesDecoded(t *testing.T) {
	parsed := snowflake.ID(117) // to which mapstructure's hook for TextUnmarshalers points
	for _, read := range []func(*snowflake.ID, any) error{(*snowflake.ID).UnmarshalGQL, (*snowflake.ID).UnmarshalMapstructure} {
		for _, v := range []any{117, int64(117), uint8(117), uint64(117), "117", json.Number("117"), snowflake.ID(117), &parsed} {
			id := snowflake.ID(7)
			require.NoError(t, read(&id, v))
			assert.Equal(t, snowflake.ID(117), id, "%T", v)
		}
		for _, v := range []any{-1, int64(math.MinInt64), uint64(1 << 63), 117.0, float32(117), "0117", "-5", "1e3", "", " 7",
			json.Number("1e3"), true, nil, []byte("117"), []string{"117"}, map[string]any{}, struct{}{}, new(int), (*snowflake.ID)(nil)} {
			id := snowflake.ID(7)
			assert.ErrorIs(t, read(&id, v), snowflake.ErrInvalidID, "%T %v", v, v)
			assert.Equal(t, snowflake.ID(7), id, "unchanged")
		}
	}
}

// Doubles that are whole numbers below 2^53 are exact. Others may have been rounded.
func TestValuesOfMongoDB(t *testing.T) {
	long := func(v int64) []byte { return binary.LittleEndian.AppendUint64(nil, uint64(v)) }
	double := func(v float64) []byte { return long(int64(math.Float64bits(v))) }
	text := func(s string) []byte {
		return append(binary.LittleEndian.AppendUint32(nil, uint32(len(s)+1)), s+"\x00"...)
	}
	type value struct {
		typ  byte
		data []byte
		want string
	}
	for _, v := range []value{
		{0x12, long(1179195020662824977), "1179195020662824977"}, {0x12, long(math.MaxInt64), "9223372036854775807"}, {0x12, long(0), "0"},
		{0x10, long(math.MaxInt32)[:4], "2147483647"},
		{0x02, text("1179195020662824977"), "1179195020662824977"},
		{0x01, double(117), "117"}, {0x01, double(1<<53 - 1), "9007199254740991"}, {0x01, double(math.Copysign(0, -1)), "0"},
		{0x0a, nil, "0"},
	} {
		id := snowflake.ID(7)
		require.NoError(t, id.UnmarshalBSONValue(v.typ, v.data), v.want)
		assert.Equal(t, v.want, id.String())
	}
	for _, v := range []value{
		{0x12, long(-1), "-1 is negative"}, {0x10, []byte{0xff, 0xff, 0xff, 0xff}, "-1 is negative"},
		{0x02, text("0117"), `decimal "0117": it has a leading zero`}, {0x02, text(""), `decimal "": it is empty`},
		{0x02, []byte{1, 0, 0, 0}, "BSON type 0x02 and length 4"}, {0x02, nil, "BSON type 0x02 and length 0"},
		{0x12, []byte{1, 0, 0, 0}, "BSON type 0x12 and length 4"}, {0x10, long(1), "BSON type 0x10 and length 8"}, {0x01, nil, "BSON type 0x01"},
		{0x01, double(1179195020662824977), "the double 1179195020662825000 "}, {0x01, double(1 << 53), "the double 9007199254740992 "},
		{0x01, double(-1), "the double -1 "}, {0x01, double(0.5), "the double 0.5 "},
		{0x01, double(math.NaN()), "the double NaN "}, {0x01, double(math.Inf(1)), "the double +Inf "},
		{0x08, []byte{1}, "BSON type 0x08 and length 1; it must be an integer or a text"}, // true
	} {
		id := snowflake.ID(7)
		err := id.UnmarshalBSONValue(v.typ, v.data)
		require.ErrorIs(t, err, snowflake.ErrInvalidID, v.want)
		assert.ErrorContains(t, err, v.want)
		assert.Equal(t, snowflake.ID(7), id, "unchanged")
	}
}

func TestGraphQLAndSchemaHaveAString(t *testing.T) {
	var b strings.Builder
	for _, id := range []snowflake.ID{0, math.MaxInt64, -1} {
		id.MarshalGQL(&b)
	}
	assert.Equal(t, `"0""9223372036854775807"null`, b.String(), "a negative number is no ID")
	assert.Equal(t, "", snowflake.ID(7).JSONSchemaAlias())
}

// Near misses of the texts of IDs.
func TestReadersMatchTheSlowReference(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	bytesToTry := []byte(textForms[3].digits + " +-_.,\x00\n\x80\xff")
	for _, f := range textForms {
		tries, taken := depth.Of(2000, 20000), 0
		for range tries {
			b := []byte(f.text(snowflake.ID(rng.Int64() >> rng.IntN(63))))
			switch at := rng.IntN(len(b)); rng.IntN(4) {
			case 0:
				b[at] = bytesToTry[rng.IntN(len(bytesToTry))]
			case 1:
				b = slices.Insert(b, at, bytesToTry[rng.IntN(len(bytesToTry))])
			case 2:
				b = slices.Delete(b, at, at+1)
			case 3:
				b[0] = f.digits[rng.IntN(len(f.digits))]
			}
			if checkText(t, string(b)) {
				taken++
			}
		}
		assert.Greater(t, taken, tries/20, "too few of the texts were the text of an ID")
	}
}

// checkText checks that each reader accepts s if and only if the slow writer makes s from an ID,
// and reports whether a reader does.
func checkText(t *testing.T, s string) (taken bool) {
	for _, f := range textForms {
		want, ok := slowParse(f, s)
		got, err := f.parse(s)
		requireRead(t, f.name, s, ok, want, got, err)
		taken = taken || ok
	}
	want, ok := slowParse(decimal, s)
	if !ok {
		want = 42
	}
	for name, read := range decimalReaders {
		got := snowflake.ID(42)
		err := read(&got, s)
		requireRead(t, name, s, ok, want, got, err)
	}
	return taken
}

// requireRead checks a reader's results for s. The message of an error can be logged, whatever s
// contains.
func requireRead(t *testing.T, reader, s string, ok bool, want, got snowflake.ID, err error) {
	// The message does not grow with the text, and can be printed.
	refused := errors.Is(err, snowflake.ErrInvalidID) && len(err.Error()) < 300 &&
		!strings.ContainsFunc(err.Error(), func(r rune) bool { return !strconv.IsPrint(r) })
	if want != got || ok && err != nil || !ok && !refused {
		require.FailNowf(t, "The reference says otherwise", "%s of %.100q: %v, not %v: %q", reader, s, got, want, err)
	}
}

func TestBase32AndBase62SortAsNumbersDo(t *testing.T) {
	ids := tellingIDs()
	slices.Sort(ids)
	ids = slices.Compact(ids)
	for i, id := range ids[1:] {
		require.Less(t, ids[i].Base32(), id.Base32(), "%d and %d", ids[i], id)
		require.Less(t, ids[i].Base62(), id.Base62(), "%d and %d", ids[i], id)
	}
	assert.Greater(t, snowflake.ID(33).Base58(), snowflake.ID(34).Base58(), "z before A: base 58 does not sort, as its doc says")
}

// No generator issues a negative ID, but its text must not be the text of another ID.
func TestTextOfNegativeIDsIsNeverRead(t *testing.T) {
	for _, id := range []snowflake.ID{-1, -2, -1 << 62, math.MinInt64, math.MinInt64 + 1} {
		for _, f := range textForms {
			_, err := f.parse(f.text(id))
			require.ErrorIs(t, err, snowflake.ErrInvalidID, f.name)
		}
		b, err := id.AppendText([]byte("id="))
		require.ErrorIs(t, err, snowflake.ErrInvalidID)
		require.ErrorContains(t, err, id.String()+" is negative")
		require.Equal(t, "id=", string(b), "the buffer is as it was")
		_, err = json.Marshal(id)
		require.ErrorIs(t, err, snowflake.ErrInvalidID)
		_, err = json.Marshal(map[snowflake.ID]int{id: 1})
		require.ErrorContains(t, err, snowflake.ErrInvalidID.Error(), "encoding/json does not wrap the errors of keys")
	}
}

func TestReadersSayWhatIsWrong(t *testing.T) {
	type reader func(string) error
	parser := func(parse func(string) (snowflake.ID, error)) reader {
		return func(s string) error { _, err := parse(s); return err }
	}
	parseJSON := func(s string) error { return new(snowflake.ID).UnmarshalJSON([]byte(s)) }
	for _, tt := range []struct {
		read       reader
		text, want string
	}{
		{parser(snowflake.ParseID), "", `decimal "": it is empty`},
		{parser(snowflake.ParseID), "007", `decimal "007": it has a leading zero`},
		{parser(snowflake.ParseID), "-7\n", `decimal "-7\n": it has a character that is not a digit`},
		{parser(snowflake.ParseID), "9223372036854775808", `decimal "9223372036854775808": it is over 9223372036854775807`},
		{parser(snowflake.ParseID), strings.Repeat("1", 33),
			`decimal "11111111111111111111111111111111"...: it is over 9223372036854775807`},
		{parser(snowflake.ParseBase32), "8", `base 32 "8": it is not 13 characters`},
		{parser(snowflake.ParseBase32), "000000000000a", `base 32 "000000000000a": it has a character outside of the alphabet`},
		{parser(snowflake.ParseBase32), "8000000000000", `base 32 "8000000000000": it is over 9223372036854775807`},
		{parser(snowflake.ParseBase58), "", `base 58 "": it is not 1 to 11 characters`},
		{parser(snowflake.ParseBase58), "1A", `base 58 "1A": it has a leading 1, which is a zero here`},
		{parser(snowflake.ParseBase62), "zz", `base 62 "zz": it is not 11 characters`},
		{parseJSON, `{"id":7}`, `JSON "{\"id\":7}": it is neither a string nor an integer without a sign`},
		{parseJSON, `-7`, `JSON "-7": it is neither a string nor an integer without a sign`},
		{parseJSON, ``, `JSON "": it is neither a string nor an integer without a sign`},
		{parseJSON, `"-7"`, `decimal "-7": it has a character that is not a digit`},
		{parseJSON, `1.1e17`, `decimal "1.1e17": it has a character that is not a digit`},
	} {
		assert.EqualError(t, tt.read(tt.text), "snowflake: invalid ID: "+tt.want)
	}
}

// ID has the methods that encoding/json, encoding/xml, flag, go-redis and others look for.
var (
	_ fmt.Stringer               = snowflake.ID(0)
	_ encoding.TextAppender      = snowflake.ID(0)
	_ encoding.TextMarshaler     = snowflake.ID(0)
	_ encoding.TextUnmarshaler   = (*snowflake.ID)(nil)
	_ encoding.BinaryMarshaler   = snowflake.ID(0)
	_ encoding.BinaryUnmarshaler = (*snowflake.ID)(nil)
	_ json.Unmarshaler           = (*snowflake.ID)(nil)
)

// order is an application's type with IDs.
type order struct {
	ID       snowflake.ID           `json:"id"`
	Parent   *snowflake.ID          `json:"parent"`
	Items    []snowflake.ID         `json:"items"`
	Counts   map[snowflake.ID]int   `json:"counts"`
	Empty    snowflake.ID           `json:"empty,omitempty"`
	Zero     snowflake.ID           `json:"zero,omitzero"`
	Quoted   snowflake.ID           `json:"quoted,string"` // as people have it on an int64 today
	Optional sql.Null[snowflake.ID] `json:"-"`
}

func TestJSONOfAnIDIsAString(t *testing.T) {
	parent := snowflake.ID(math.MaxInt64)
	in := order{
		ID:     9007199254740993,
		Parent: &parent,
		Items:  []snowflake.ID{0, 1},
		Counts: map[snowflake.ID]int{1541815603606036480: 2},
		Quoted: 5,
	}
	b, err := json.Marshal(in)
	require.NoError(t, err)
	assert.Equal(t, `{"id":"9007199254740993","parent":"9223372036854775807","items":["0","1"],`+
		`"counts":{"1541815603606036480":2},"quoted":"5"}`, string(b))
	var out order
	require.NoError(t, json.Unmarshal(b, &out))
	assert.Equal(t, in, out)

	b, err = json.Marshal(order{Empty: 1, Zero: 2})
	require.NoError(t, err)
	assert.Equal(t, `{"id":"0","parent":null,"items":null,"counts":null,"empty":"1","zero":"2","quoted":"0"}`, string(b))
}

// database/sql converts parameters as driver.DefaultParameterConverter does, and columns as
// sql.Null does.
func TestIDInDatabaseSQL(t *testing.T) {
	for _, id := range []snowflake.ID{0, 1, 1541815603606036480, math.MaxInt64} {
		for _, param := range []any{id, &id, sql.Null[snowflake.ID]{V: id, Valid: true}} {
			v, err := driver.DefaultParameterConverter.ConvertValue(param)
			require.NoError(t, err)
			assert.Equal(t, int64(id), v)
		}
		for _, column := range []any{int64(id), uint64(id), id.String(), []byte(id.String())} {
			var null sql.Null[snowflake.ID]
			require.NoError(t, null.Scan(column))
			assert.Equal(t, id, null.V)
			var pointer sql.Null[*snowflake.ID]
			require.NoError(t, pointer.Scan(column))
			assert.Equal(t, id, *pointer.V)
		}
	}
}

func TestScanRefusesColumnsThatAreNotIDs(t *testing.T) {
	for want, column := range map[string]any{
		"-1 is negative": int64(-1),
		"9223372036854775808 is over 9223372036854775807":                uint64(1 << 63),
		"the column is NULL; scan into *ID or sql.Null[ID]":              nil,
		"the column has type float64; it must be an integer or a text":   5.0,
		"the column has type time.Time; it must be an integer or a text": time.Now(),
	} {
		id := snowflake.ID(42)
		assert.EqualError(t, id.Scan(column), "snowflake: invalid ID: "+want)
		assert.EqualValues(t, 42, id)
	}
}

// Sinks keep the compiler from removing the measured code.
var (
	sinkID     snowflake.ID
	sinkString string
	sinkParts  snowflake.Parts
	sinkErr    error
)

func TestMustParseID(t *testing.T) {
	assert.Equal(t, snowflake.ID(7), snowflake.MustParseID("7"))
	assert.PanicsWithError(t, `snowflake: invalid ID: decimal "07": it has a leading zero`, func() { snowflake.MustParseID("07") })
}

func TestAllocations(t *testing.T) {
	id := snowflake.ID(1541815603606036480)
	layout := snowflake.DefaultLayout()
	parts := layout.Decode(id)
	decimalText, base32Text, base58Text, base62Text := id.String(), id.Base32(), id.Base58(), id.Base62()
	text, quoted, null, buf := []byte(decimalText), []byte(`"`+decimalText+`"`), []byte("null"), make([]byte, 0, 32)
	tests := []struct {
		name string
		most float64
		f    func()
	}{
		{"Decode", 0, func() { sinkParts = snowflake.Decode(id) }},
		{"Layout.Decode", 0, func() { sinkParts = layout.Decode(id) }},
		{"Check", 0, func() { sinkErr = layout.Check(id) }},
		{"Validate", 0, func() { sinkErr = layout.Validate() }},
		{"Encode", 0, func() { sinkID, sinkErr = layout.Encode(parts) }},
		{"Range", 0, func() { sinkID, _, sinkErr = layout.Range(parts.Time, parts.Time) }},
		{"ParseID", 0, func() { sinkID, sinkErr = snowflake.ParseID(decimalText) }},
		{"ParseBase32", 0, func() { sinkID, sinkErr = snowflake.ParseBase32(base32Text) }},
		{"ParseBase58", 0, func() { sinkID, sinkErr = snowflake.ParseBase58(base58Text) }},
		{"ParseBase62", 0, func() { sinkID, sinkErr = snowflake.ParseBase62(base62Text) }},
		{"AppendText", 0, func() { _, sinkErr = id.AppendText(buf) }},
		{"UnmarshalText", 0, func() { sinkErr = sinkID.UnmarshalText(text) }},
		{"UnmarshalJSON of a number", 0, func() { sinkErr = sinkID.UnmarshalJSON(text) }},
		{"UnmarshalJSON of a string", 0, func() { sinkErr = sinkID.UnmarshalJSON(quoted) }},
		{"UnmarshalJSON of null", 0, func() { sinkErr = sinkID.UnmarshalJSON(null) }},
		{"String", 1, func() { sinkString = id.String() }},
		{"Base32", 1, func() { sinkString = id.Base32() }},
		{"Base58", 1, func() { sinkString = id.Base58() }},
		{"Base62", 1, func() { sinkString = id.Base62() }},
	}
	for _, tt := range tests {
		assert.LessOrEqual(t, testing.AllocsPerRun(100, tt.f), tt.most, tt.name)
		assert.NoError(t, sinkErr, tt.name)
	}
}

// notCanonical are texts that no ID has in one form at least. They are seeds of the fuzz tests
// below, so each run of the tests reads them in all forms.
var notCanonical = []string{
	// decimal
	"", "-1", "-0", "+1", "-", " 1", "1 ", " ", "\t1", "1\n", "0", "00", "01", strings.Repeat("0", 19) + "1",

	"9223372036854775808", // 2^63
	"18446744073709551615", "18446744073709551616", "18446744073709551617",
	"9999999999999999999", "99999999999999999999", "92233720368547758070",
	"1e3", "1.0", "0x1", "1_000", "1,000", "1/", "1:", "a", "\x00", "1\x00", "\x001", "１", "٣", "é", "\xff", "1\xff",
	// base 32
	"000000000001", "00000000000001", "7zzzzzzzzzzzz", "000000000000a", "000000000000I", "000000000000L", "000000000000O", "000000000000U",
	"8000000000000", "FZZZZZZZZZZZZ", "G000000000000", "G000000000001", "ZZZZZZZZZZZZZ",
	"-000000000001", "+000000000001", " 000000000001", "000000000001 ", "000000-000001", "000000000001*", "000000000001\n",
	"00000000000\x001", "00000000000é", "000000000000\xff",
	// base 58
	"211111111111", "12", "11", "11111111111", "I", "O", "l", "4jgm0x8Js8A", "-2", "+2", " 2", "2 ", "2\n", "2\x00", "2\xff",
	"npL6MjP8Qfd", "JPwcyDCgEup", "JPwcyDCgEuq", "JPwcyDCgEur", "ZZZZZZZZZZZ",
	// base 62
	"0000000001", "AzL8n0Y58m8", "LygHa16AHYF", "LygHa16AHYG", "LygHa16AHYH", "zzzzzzzzzzz",
	"-0000000001", "+0000000001", " 0000000001", "0000000001 ", "0000000001\n", "0000000_001",
	"000000000\x001", "000000000é", "0000000000\xff",
	// long
	strings.Repeat("1", 1<<20), strings.Repeat("0", 1<<20), strings.Repeat("2", 1<<20), strings.Repeat("\x00", 1<<20),
}

func FuzzReaders(f *testing.F) {
	for _, id := range []snowflake.ID{0, 1, 57, 58, 61, 62, 1<<53 - 1, 1541815603606036480, math.MaxInt64, -1, math.MinInt64} {
		for _, form := range textForms {
			f.Add(form.text(id))
		}
	}
	for _, s := range notCanonical {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) { checkText(t, s) })
}

// The twin of UnmarshalJSON is encoding/json with a json.Number and a string.
func FuzzUnmarshalJSON(f *testing.F) {
	for _, s := range append(notCanonical,
		// null, integers, and near misses
		"null", "7", " 7 ", "1541815603606036480", "9223372036854775807",
		"1.5", "0.0", "1E3", "1e0", "1.5e1", "-1.5", "07", "nul", "nullx", " null", "Null", "NULL",
		// other values
		"true", "false", "{}", `{"id":1}`, "[]", "[1]", `["1"]`, `'1'`,
		// strings, and near misses
		`"0"`, `"1541815603606036480"`, "\t\"7\"\n", `"9223372036854775807"`,
		`"`, `"1`, `1"`, `""1""`, `"1""`, `"1x`, `""`, `" 1"`, `"1 "`, `"-1"`, `"+1"`, `"01"`, `"1e3"`, `"1.0"`, `"null"`, `"true"`,
		`"9223372036854775808"`, `"\"1\""`, `"1\n"`, `"\u0031"`, `"1\u0000"`, "\"7\x00\"", `"１"`) {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		const before = snowflake.ID(42)
		want, ok := slowJSON(b, before)
		got := before
		assert.Equal(t, ok, json.Unmarshal(b, &got) == nil)
		require.Equal(t, want, got)

		// UnmarshalJSON is called directly, with data that may not be JSON at all. It must not
		// accept more than encoding/json would have passed to it.
		got = before
		err := got.UnmarshalJSON(b)
		if err != nil {
			want = before
		}
		require.True(t, ok || err != nil)
		requireRead(t, "UnmarshalJSON", string(b), err == nil, want, got, err)
	})
}

// slowJSON reads b with encoding/json alone. before is the result for null.
func slowJSON(b []byte, before snowflake.ID) (id snowflake.ID, ok bool) {
	var v any
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	if !json.Valid(b) || dec.Decode(&v) != nil {
		return before, false
	}
	switch v := v.(type) {
	case nil:
		return before, true
	case json.Number:
		id, ok = slowParse(decimal, v.String())
	case string:
		id, ok = slowParse(decimal, v)
		ok = ok && !bytes.Contains(b, []byte(`\`)) // an ID has no need of escapes
	}
	if !ok {
		return before, false
	}
	return id, true
}
