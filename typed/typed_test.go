//go:build go1.25

package typed_test

import (
	"cmp"
	"database/sql/driver"
	"encoding"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/typed"
)

type order struct{}

func (order) Prefix() string { return "order" }

type user struct{}

func (user) Prefix() string { return "user" }

type line struct{}

func (line) Prefix() string { return "order_line" }

type (
	orderID = typed.ID[order]
	userID  = typed.ID[user]
	lineID  = typed.ID[line]
)

const (
	sample = snowflake.ID(117469438034313216)
	text   = "order_038ANTKF00000"
)

func TestTextIsPrefixAndBase32(t *testing.T) {
	id := typed.New[order](sample)
	assert.Equal(t, "order_"+sample.Base32(), id.String())
	assert.Equal(t, text, id.String())
	assert.Equal(t, sample, id.ID())
	assert.Equal(t, "order_line_"+sample.Base32(), typed.New[line](sample).String())

	got, err := typed.Parse[order](text)
	require.NoError(t, err)
	assert.Equal(t, id, got)
	gotLine, err := typed.Parse[line]("order_line_038ANTKF00000")
	require.NoError(t, err)
	assert.Equal(t, lineID(sample), gotLine)
}

func TestTextsSortAsNumbersDo(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	ids := []orderID{0, 1, 31, 32, math.MaxInt64}
	for range 1000 {
		ids = append(ids, orderID(rng.Int64()>>rng.IntN(63)))
	}
	slices.Sort(ids)
	assert.True(t, slices.IsSortedFunc(ids, func(a, b orderID) int { return cmp.Compare(a.String(), b.String()) }))
	for _, id := range ids {
		got, err := typed.Parse[order](id.String())
		require.NoError(t, err)
		require.Equal(t, id, got)
	}
}

func TestParseIsStrict(t *testing.T) {
	tests := []struct{ text, says string }{
		{"user_038ANTKF00000", "user_038ANTKF00000 has the prefix user_, it should be order_"},
		{"order_line_038ANTKF00000", "has the prefix order_line_, it should be order_"},
		{"", `"" has no prefix; it should be order_ and 13 characters`},
		{"038ANTKF00000", "has no prefix"},
		{"117469438034313216", "has no prefix"},
		{"_038ANTKF00000", "is empty"},
		{"order__038ANTKF00000", "ends with an underscore"},
		{"1order_038ANTKF00000", "does not begin with a letter"},
		{"Order_038ANTKF00000", "other than a-z"},
		{" order_038ANTKF00000", "other than a-z"},
		{"order_038antkf00000", "outside of the alphabet"},
		{"order_038ANTKF0000", "it is not 13 characters; it should be order_"},
		{"order_038ANTKF00000 ", "it is not 13 characters"},
		{"order_117469438034313216", "it is not 13 characters"},
		{"order_8000000000000", "it is over 9223372036854775807"},
		{"order-038ANTKF00000", "has no prefix"},
		{strings.Repeat("x", 64) + "_038ANTKF00000", "has 64 characters; at most 63 are allowed"},
	}
	for _, tt := range tests {
		id, err := typed.Parse[order](tt.text)
		assert.Zero(t, id)
		assert.ErrorIs(t, err, snowflake.ErrInvalidID, tt.text)
		assert.ErrorContains(t, err, tt.says)
		assert.Less(t, len(err.Error()), 200)

		id = 7
		assert.Error(t, id.UnmarshalText([]byte(tt.text)))
		assert.Error(t, id.UnmarshalParam(tt.text))
		assert.Error(t, id.Bind(tt.text))
		assert.Error(t, id.UnmarshalGQL(tt.text))
		assert.Error(t, id.UnmarshalMapstructure(tt.text))
		assert.Equal(t, orderID(7), id, "unchanged")
	}
}

func TestOtherLibrariesSeeTheText(t *testing.T) {
	var b strings.Builder
	orderID(sample).MarshalGQL(&b)
	orderID(-1).MarshalGQL(&b)
	typed.New[badly](1).MarshalGQL(&b)
	assert.Equal(t, `"`+text+`"nullnull`, b.String())
	assert.Equal(t, "", orderID(7).JSONSchemaAlias())

	var bound orderID
	require.NoError(t, bound.Bind(text))
	assert.Equal(t, orderID(sample), bound)
	parsed := orderID(sample)
	for _, read := range []func(*orderID, any) error{(*orderID).UnmarshalGQL, (*orderID).UnmarshalMapstructure} {
		for _, v := range []any{text, orderID(sample), &parsed} {
			id := orderID(7)
			require.NoError(t, read(&id, v))
			assert.Equal(t, orderID(sample), id)
		}
		for _, v := range []any{117, int64(117), 117.0, json.Number("117"), userID(7), snowflake.ID(7), nil, true, (*orderID)(nil)} {
			id := orderID(7)
			assert.ErrorIs(t, read(&id, v), snowflake.ErrInvalidID, "%T has no prefix", v)
			assert.Equal(t, orderID(7), id, "unchanged")
		}
	}
}

func TestFoldReadsWhatPeopleType(t *testing.T) {
	for _, typedIn := range []string{"order_038ANTKF00000", "ORDER_038ANTKF00000", "order_038antkf00000", " Order_O38anTKFoOo0o\n"} {
		id, err := typed.Parse[order](typed.Fold(typedIn))
		require.NoError(t, err, typedIn)
		assert.Equal(t, orderID(sample), id)
	}
	one, err := typed.ParseAny(typed.Fold("ORDER_LINE_0000000000iL1"))
	require.NoError(t, err)
	assert.Equal(t, typed.Any{Prefix: "order_line", ID: 1<<10 | 1<<5 | 1}, one)
	_, err = typed.ParseAny(typed.Fold("\u212aey_038ANTKF00000"))
	assert.ErrorIs(t, err, snowflake.ErrInvalidID, "a Kelvin sign is no k")
	for _, text := range []string{"", "_", "038antkf00000", "user_038ANTKF00000", "order_038ANTKFU0000",
		"order_038ANTKF-0000", "order_038 ANTKF00000", "oKder_038ANTKF00000",
		"order_038ANT\u212aF00000", "order_038ANTKF0000\u0131", "order_038ANTKF0000\u017f"} {
		_, err := typed.Parse[order](typed.Fold(text))
		assert.ErrorIs(t, err, snowflake.ErrInvalidID, text)
	}
}

type badly struct{}

func (badly) Prefix() string { return "Not-good" }

func TestInvalidPrefixIsRefused(t *testing.T) {
	_, err := typed.Parse[badly](text)
	assert.ErrorIs(t, err, snowflake.ErrInvalidOptions)
	assert.ErrorContains(t, err, `typed_test.badly`)
	_, err = json.Marshal(typed.New[badly](1))
	assert.ErrorIs(t, err, snowflake.ErrInvalidOptions)
	for _, prefix := range []string{"", "_", "a_", "_a", "9", "a b", "é", "A", strings.Repeat("a", 64)} {
		_, err := typed.Any{Prefix: prefix, ID: 1}.MarshalText()
		assert.ErrorIs(t, err, snowflake.ErrInvalidOptions, prefix)
		_, err = typed.ParseAny(prefix + "_" + sample.Base32())
		assert.ErrorIs(t, err, snowflake.ErrInvalidID, prefix)
	}
	for _, prefix := range []string{"a", "a9", "a_b", "a__b", strings.Repeat("a", 63)} {
		b, err := typed.Any{Prefix: prefix, ID: 1}.MarshalText()
		assert.NoError(t, err)
		a, err := typed.ParseAny(string(b))
		assert.NoError(t, err)
		assert.Equal(t, typed.Any{Prefix: prefix, ID: 1}, a)
	}
}

type byPointer struct{}

func (p *byPointer) Prefix() string { return "pointer" }

func TestPointerTypeWorksOnlyIfItsMethodHasAPointerReceiver(t *testing.T) {
	assert.Equal(t, "pointer_0000000000007", typed.New[*byPointer](7).String())
	assert.Panics(t, func() { _ = typed.New[*order](7).String() }, "Prefix has a value receiver")
	assert.Panics(t, func() { _, _ = typed.Parse[*order](text) })
}

func TestNegativeIDHasNoText(t *testing.T) {
	for _, id := range []orderID{-1, math.MinInt64} {
		for _, marshal := range []func() ([]byte, error){id.MarshalText, id.MarshalBinary} {
			_, err := marshal()
			assert.ErrorIs(t, err, snowflake.ErrInvalidID)
		}
		_, err := typed.Parse[order](id.String())
		assert.ErrorIs(t, err, snowflake.ErrInvalidID)
	}
}

func TestAnyReadsTextsOfAllTypes(t *testing.T) {
	a, err := typed.ParseAny(text)
	require.NoError(t, err)
	assert.Equal(t, typed.Any{Prefix: "order", ID: sample}, a)
	assert.Equal(t, text, a.String())
	assert.Equal(t, a, orderID(sample).Any())

	b, err := json.Marshal(a)
	require.NoError(t, err)
	assert.Equal(t, `"`+text+`"`, string(b))
	var back typed.Any
	require.NoError(t, json.Unmarshal(b, &back))
	assert.Equal(t, a, back)
	assert.ErrorIs(t, json.Unmarshal([]byte(`"order_x"`), &back), snowflake.ErrInvalidID)
	assert.Equal(t, a, back, "unchanged")

	var bound, gob typed.Any
	require.NoError(t, bound.UnmarshalParam(text))
	b, err = a.MarshalBinary()
	require.NoError(t, err)
	require.NoError(t, gob.UnmarshalBinary(b))
	assert.Equal(t, []typed.Any{a, a}, []typed.Any{bound, gob})
}

type row struct {
	ID orderID `json:"id"`
	By *userID `json:"by,omitempty"`
}

// An ID has the methods that encoding/json, encoding/xml, flag, fmt and log/slog look for.
var (
	_ fmt.Stringer             = orderID(0)
	_ encoding.TextMarshaler   = orderID(0)
	_ encoding.TextUnmarshaler = (*orderID)(nil)
)

func TestJSON(t *testing.T) {
	by := userID(7)
	in := row{ID: orderID(sample), By: &by}
	b, err := json.Marshal(in)
	require.NoError(t, err)
	assert.Equal(t, `{"id":"`+text+`","by":"user_0000000000007"}`, string(b))
	var out row
	require.NoError(t, json.Unmarshal(b, &out))
	assert.Equal(t, in, out)

	byID := map[orderID]string{orderID(sample): "a", 1: "b"}
	b, err = json.Marshal(byID)
	require.NoError(t, err)
	assert.Equal(t, `{"order_0000000000001":"b","`+text+`":"a"}`, string(b))
	var back map[orderID]string
	require.NoError(t, json.Unmarshal(b, &back))
	assert.Equal(t, byID, back)

	for _, bad := range []string{`{"id":117469438034313216}`, `{"id":"117469438034313216"}`, `{"id":"user_0000000000007"}`, `{"id":true}`} {
		out := row{ID: 7}
		assert.Error(t, json.Unmarshal([]byte(bad), &out), bad)
		assert.Equal(t, orderID(7), out.ID, "unchanged")
	}
	out = row{ID: 7, By: &by}
	require.NoError(t, json.Unmarshal([]byte(`{"id":null,"by":null}`), &out))
	assert.Equal(t, orderID(7), out.ID, "null changes nothing, as with snowflake.ID")
	assert.Nil(t, out.By)
}

func TestDatabaseHasTheNumber(t *testing.T) {
	v, err := driver.DefaultParameterConverter.ConvertValue(orderID(sample))
	require.NoError(t, err)
	assert.Equal(t, int64(sample), v)

	v, err = driver.DefaultParameterConverter.ConvertValue(orderID(sample).Any())
	require.NoError(t, err)
	assert.Equal(t, int64(sample), v)
	_, err = driver.DefaultParameterConverter.ConvertValue(typed.Any{Prefix: "order", ID: -7})
	assert.ErrorIs(t, err, snowflake.ErrInvalidID)
	assert.ErrorContains(t, err, "order_-7 is negative")

	for _, src := range []any{int64(sample), uint64(sample), "117469438034313216", []byte("117469438034313216")} {
		var id orderID
		require.NoError(t, id.Scan(src))
		assert.Equal(t, orderID(sample), id)
	}
	for _, src := range []any{nil, int64(-1), text, 1.5} {
		id := orderID(7)
		err := id.Scan(src)
		assert.ErrorIs(t, err, snowflake.ErrInvalidID)
		assert.ErrorContains(t, err, "an ID of typed_test.order: ")
		assert.Equal(t, orderID(7), id, "unchanged")
	}

	var id orderID
	require.NoError(t, id.UnmarshalBSONValue(0x10, []byte{117, 0, 0, 0})) // an integer of MongoDB
	assert.Equal(t, orderID(117), id)
	err = id.UnmarshalBSONValue(0x01, []byte{0, 0, 0, 0, 0, 0, 0xe0, 0x3f}) // a double
	assert.ErrorIs(t, err, snowflake.ErrInvalidID)
	assert.ErrorContains(t, err, "an ID of typed_test.order: snowflake: invalid ID: the double 0.5 ")
	assert.Equal(t, orderID(117), id, "unchanged")
}

// The compiler assigns and compares values of two types only if one is assignable to the other.
func TestCompilerRefusesTheIDOfAnotherType(t *testing.T) {
	assert.NotEqual(t, reflect.TypeFor[orderID](), reflect.TypeFor[userID]())
	assert.False(t, reflect.TypeFor[userID]().AssignableTo(reflect.TypeFor[orderID]()))
	assert.False(t, reflect.TypeFor[snowflake.ID]().AssignableTo(reflect.TypeFor[orderID]()))
}

func TestAllocations(t *testing.T) {
	id, buf, b := orderID(sample), make([]byte, 0, 64), []byte(text)
	s, err := "", error(nil)
	for _, tt := range []struct {
		name string
		most float64
		f    func()
	}{
		{"Parse", 0, func() { id, err = typed.Parse[order](text) }},
		{"AppendText", 0, func() { _, err = id.AppendText(buf) }},
		{"UnmarshalText", 1, func() { err = id.UnmarshalText(b) }},
		{"MarshalText", 1, func() { _, err = id.MarshalText() }},
		{"String", 1, func() { s = id.String() }},
	} {
		assert.LessOrEqual(t, testing.AllocsPerRun(100, tt.f), tt.most, tt.name)
		assert.NoError(t, err, tt.name)
	}
	assert.Equal(t, text, s)
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"", "_", text, "user_038ANTKF00000", "order_8000000000000", "order_line_0000000000001",
		"a_b_c_7ZZZZZZZZZZZZ", "\xff_0000000000000",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		a, err := typed.ParseAny(s)
		if err != nil {
			require.ErrorIs(t, err, snowflake.ErrInvalidID)
			require.Zero(t, a)
		} else {
			require.Equal(t, s, a.String(), "an ID has one text")
			b, err := a.MarshalText()
			require.NoError(t, err)
			require.Equal(t, s, string(b))
		}
		id, err := typed.Parse[order](s)
		require.Equal(t, a.Prefix == "order", err == nil)
		if err == nil {
			require.Equal(t, a.ID, id.ID())
			require.Equal(t, s, id.String())
		}
	})
}

func BenchmarkText(b *testing.B) {
	id := orderID(sample)
	b.Run("do=write", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_ = id.String()
		}
	})
	b.Run("do=read", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := typed.Parse[order](text); err != nil {
				b.Fatal(err)
			}
		}
	})
}
