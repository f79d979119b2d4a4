package snowflake_test

import (
	"bytes"
	"database/sql"
	"database/sql/driver"
	"encoding"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"math/big"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/depth"
)

// textForm is one way to write an ID, with all that the slow reference needs.
type textForm struct {
	name   string
	text   func(snowflake.ID) string
	parse  func(string) (snowflake.ID, error)
	digits string
	width  int // 0: as many digits as it takes
}

var (
	decimal = textForm{"decimal", snowflake.ID.String, snowflake.ParseID, "0123456789", 0}
	base32  = textForm{"base 32", snowflake.ID.Base32, snowflake.ParseBase32, "0123456789ABCDEFGHJKMNPQRSTVWXYZ", 13}
	base58  = textForm{"base 58", snowflake.ID.Base58, snowflake.ParseBase58, "123456789abcdefghijkmnopqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ", 0}
	base62  = textForm{"base 62", snowflake.ID.Base62, snowflake.ParseBase62, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", 11}
)

var textForms = []textForm{decimal, base32, base58, base62}

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

// slowParse is the reference for reading: a text is canonical if the slow writer
// makes the same text of its value.
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

// tellingIDs returns IDs at which the number of digits or bits changes, and random
// IDs of every length.
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
		{1428076403798048768, "17MCBXH480000", "4jgmnx8Js8A", "1hUbVvYD84G"}, // the base 58 from bwmarrin/snowflake's tests
		{1541815603606036480, "1ASD13XH1F800", "4zzv4rZaYpj", "1ptWyK4WgZU"},
		{math.MaxInt64, "7ZZZZZZZZZZZZ", "npL6MjP8Qfc", "AzL8n0Y58m7"},
	}
	for _, tt := range tests {
		assert.Equal(t, strconv.FormatInt(int64(tt.id), 10), tt.id.String())
		assert.Equal(t, tt.b32, tt.id.Base32(), "base 32 of %d", tt.id)
		assert.Equal(t, tt.b58, tt.id.Base58(), "base 58 of %d", tt.id)
		assert.Equal(t, tt.b62, tt.id.Base62(), "base 62 of %d", tt.id)
		for _, f := range textForms {
			got, err := f.parse(f.text(tt.id))
			require.NoError(t, err, f.name)
			assert.Equal(t, tt.id, got, f.name)
		}
	}
}

func TestTextFormsRoundTripAndMatchTheSlowReference(t *testing.T) {
	for _, f := range textForms {
		t.Run(f.name, func(t *testing.T) {
			for _, id := range tellingIDs() {
				text := f.text(id)
				require.Equal(t, slowText(f, big.NewInt(int64(id))), text)
				if f.width > 0 {
					require.Len(t, text, f.width)
				}
				got, err := f.parse(text)
				require.NoError(t, err)
				require.Equal(t, id, got, text)
			}
		})
	}
}

// Near misses of canonical texts: a parser accepts each if and only if the reference
// does.
func TestParsersMatchTheSlowReference(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	bytesToTry := []byte(base62.digits + " +-_.,\x00\n\x80\xff")
	for _, f := range textForms {
		t.Run(f.name, func(t *testing.T) {
			tries, taken := depth.Of(4000, 20000), 0
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
				if checkParse(t, f, string(b)) {
					taken++
				}
			}
			assert.Greater(t, taken, tries/20, "too few of the texts were canonical to tell")
		})
	}
}

// checkParse holds f.parse against the reference and reports whether s is an ID.
func checkParse(t *testing.T, f textForm, s string) bool {
	t.Helper()
	want, ok := slowParse(f, s)
	got, err := f.parse(s)
	if !ok {
		requireRefused(t, got, err, s)
		return false
	}
	require.NoError(t, err, "%s %q", f.name, s)
	require.Equal(t, want, got, "%s %q", f.name, s)
	require.Equal(t, s, f.text(got), "the text is not the only one of its ID")
	return true
}

// requireRefused checks that err is an ErrInvalidID, and that its message can be
// logged, whatever the text contains.
func requireRefused(t *testing.T, got snowflake.ID, err error, s string) {
	t.Helper()
	require.ErrorIs(t, err, snowflake.ErrInvalidID, "%.100q", s)
	require.Zero(t, got, "%.100q", s)
	require.Less(t, len(err.Error()), 300, "the message grows with the text")
	for _, r := range err.Error() {
		require.True(t, strconv.IsPrint(r), "the message has the unprintable %q", r)
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
func TestTextOfNegativeIDsIsNeverParsed(t *testing.T) {
	for _, id := range []snowflake.ID{-1, -2, -1 << 62, math.MinInt64, math.MinInt64 + 1} {
		for _, f := range textForms {
			got, err := f.parse(f.text(id))
			requireRefused(t, got, err, f.text(id))
		}
		for _, b := range [][]byte{nil, []byte("id=")} {
			got, err := id.AppendText(b)
			require.ErrorIs(t, err, snowflake.ErrInvalidID)
			require.Equal(t, b, got, "the buffer is as it was")
			require.ErrorContains(t, err, strconv.FormatInt(int64(id), 10)+" is negative")
		}
		_, err := id.MarshalText()
		require.ErrorIs(t, err, snowflake.ErrInvalidID)
		_, err = json.Marshal(id)
		require.ErrorIs(t, err, snowflake.ErrInvalidID)
		_, err = json.Marshal(map[snowflake.ID]int{id: 1})
		require.ErrorContains(t, err, snowflake.ErrInvalidID.Error(), "encoding/json does not wrap the errors of keys")
	}
}

func TestParseErrorsSayWhatIsWrong(t *testing.T) {
	tests := []struct {
		parse func(string) (snowflake.ID, error)
		text  string
		want  string
	}{
		{snowflake.ParseID, "", `decimal "": it is empty`},
		{snowflake.ParseID, "007", `decimal "007": it has a leading zero`},
		{snowflake.ParseID, "-7\n", `decimal "-7\n": it has a character that is not a digit`},
		{snowflake.ParseID, "9223372036854775808", `decimal "9223372036854775808": it is over 9223372036854775807`},
		{snowflake.ParseID, strings.Repeat("1", 1<<20), `decimal "11111111111111111111111111111111"...: it is over 9223372036854775807`},
		{snowflake.ParseBase32, "8", `base 32 "8": it is not 13 characters`},
		{snowflake.ParseBase32, "000000000000a", `base 32 "000000000000a": it has a character outside of the alphabet`},
		{snowflake.ParseBase32, "8000000000000", `base 32 "8000000000000": it is over 9223372036854775807`},
		{snowflake.ParseBase58, "", `base 58 "": it is not 1 to 11 characters`},
		{snowflake.ParseBase58, "1A", `base 58 "1A": it has a leading 1, which is a zero here`},
		{snowflake.ParseBase62, "zz", `base 62 "zz": it is not 11 characters`},
	}
	for _, tt := range tests {
		_, err := tt.parse(tt.text)
		assert.EqualError(t, err, "snowflake: invalid ID: "+tt.want)
	}
}

// ID satisfies what encoding/json, encoding/xml, flag and others look for.
var (
	_ fmt.Stringer             = snowflake.ID(0)
	_ encoding.TextAppender    = snowflake.ID(0)
	_ encoding.TextMarshaler   = snowflake.ID(0)
	_ encoding.TextUnmarshaler = (*snowflake.ID)(nil)
	_ json.Unmarshaler         = (*snowflake.ID)(nil)
)

func TestMarshalTextRoundTrips(t *testing.T) {
	for _, id := range tellingIDs() {
		text, err := id.MarshalText()
		require.NoError(t, err)
		require.Equal(t, id.String(), string(text))
		appended, err := id.AppendText([]byte("id="))
		require.NoError(t, err)
		require.Equal(t, "id="+id.String(), string(appended))
		var got snowflake.ID
		require.NoError(t, got.UnmarshalText(text))
		require.Equal(t, id, got)
	}
}

func TestIDWorksAsAFlag(t *testing.T) {
	fs := flag.NewFlagSet("", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	var id snowflake.ID
	fs.TextVar(&id, "after", snowflake.ID(7), "")
	require.NoError(t, fs.Parse(nil))
	assert.Equal(t, snowflake.ID(7), id)
	require.NoError(t, fs.Parse([]string{"-after", "1541815603606036480"}))
	assert.Equal(t, snowflake.ID(1541815603606036480), id)
	require.Error(t, fs.Parse([]string{"-after", "-1"}))
}

// order is what an application would put an ID into.
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

// maxSafeInteger is JavaScript's Number.MAX_SAFE_INTEGER.
const maxSafeInteger = 1<<53 - 1

func TestJavaScriptKeepsEveryDigit(t *testing.T) {
	if runtime.GOOS == "js" {
		t.Skip("no program can be started from js/wasm")
	}
	node, err := exec.LookPath("node")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("node is not installed: apt-get install nodejs")
		}
		t.Skip("node is not installed: apt-get install nodejs")
	}
	// The first line in is an array of strings, the second one of numbers.
	const script = `
		const [texts, numbers] = require("fs").readFileSync(0, "utf8").split("\n");
		for (const s of JSON.parse(texts)) {
			if (typeof s !== "string" || BigInt(s).toString() !== s) throw new Error("not an ID: " + s);
		}
		console.log(JSON.stringify(JSON.parse(texts)));
		console.log(JSON.stringify(JSON.parse(numbers)));
		console.log(JSON.stringify(JSON.parse(numbers).map(Number.isSafeInteger)));`
	ids := tellingIDs()
	texts, err := json.Marshal(ids)
	require.NoError(t, err)
	numbers := make([]int64, len(ids))
	for i, id := range ids {
		numbers[i] = int64(id)
	}
	asNumbers, err := json.Marshal(numbers)
	require.NoError(t, err)

	cmd := exec.Command(node, "-e", script)
	cmd.Stdin = strings.NewReader(string(texts) + "\n" + string(asNumbers))
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		t.Fatalf("node: %s", exit.Stderr)
	}
	require.NoError(t, err)
	lines := bytes.Split(out, []byte("\n"))
	require.GreaterOrEqual(t, len(lines), 3)

	assert.Equal(t, string(texts), string(lines[0]), "what JavaScript writes back")
	var back []snowflake.ID
	require.NoError(t, json.Unmarshal(lines[0], &back))
	assert.Equal(t, ids, back)

	// As numbers, all IDs that JavaScript calls safe come back, but not all others.
	var rounded []json.RawMessage
	var safe []bool
	require.NoError(t, json.Unmarshal(lines[1], &rounded))
	require.NoError(t, json.Unmarshal(lines[2], &safe))
	require.Len(t, rounded, len(ids))
	lost := 0
	for i, id := range ids {
		var got snowflake.ID
		err := json.Unmarshal(rounded[i], &got)
		require.Equal(t, id <= maxSafeInteger, safe[i], "%d", id)
		if safe[i] {
			require.NoError(t, err)
			require.Equal(t, id, got)
		} else if got != id {
			lost++
		}
	}
	assert.Positive(t, lost)
}

// echoDriver returns each query's one parameter, as the type that the query
// names.
type echoDriver struct{}

func init() { sql.Register("snowflake-echo", echoDriver{}) }

func (echoDriver) Open(string) (driver.Conn, error)          { return echoDriver{}, nil }
func (echoDriver) Prepare(query string) (driver.Stmt, error) { return echoStmt(query), nil }
func (echoDriver) Begin() (driver.Tx, error)                 { return nil, errors.New("no transactions") }
func (echoDriver) Close() error                              { return nil }

type echoStmt string

func (echoStmt) Close() error                               { return nil }
func (echoStmt) NumInput() int                              { return 1 }
func (echoStmt) Exec([]driver.Value) (driver.Result, error) { return nil, errors.New("no exec") }

func (s echoStmt) Query(args []driver.Value) (driver.Rows, error) {
	if s == "NULL" {
		return &echoRows{value: nil}, nil
	}
	v, ok := args[0].(int64)
	if !ok {
		return nil, fmt.Errorf("the driver received a %T", args[0])
	}
	switch s {
	case "int64":
		return &echoRows{value: v}, nil
	case "[]byte":
		return &echoRows{value: strconv.AppendInt(nil, v, 10)}, nil
	case "string":
		return &echoRows{value: strconv.FormatInt(v, 10)}, nil
	}
	return nil, fmt.Errorf("unknown query %q", string(s))
}

type echoRows struct {
	value driver.Value
	done  bool
}

func (*echoRows) Columns() []string { return []string{"id"} }
func (*echoRows) Close() error      { return nil }
func (r *echoRows) Next(dest []driver.Value) error {
	if r.done {
		return io.EOF
	}
	dest[0], r.done = r.value, true
	return nil
}

func TestIDInDatabaseSQL(t *testing.T) {
	db, err := sql.Open("snowflake-echo", "")
	require.NoError(t, err)
	defer db.Close()

	for _, form := range []string{"int64", "[]byte", "string"} {
		t.Run(form, func(t *testing.T) {
			for _, id := range []snowflake.ID{0, 1, 1541815603606036480, math.MaxInt64} {
				var got snowflake.ID
				require.NoError(t, db.QueryRow(form, id).Scan(&got))
				assert.Equal(t, id, got)

				require.NoError(t, db.QueryRow(form, &id).Scan(&got), "a pointer is as good")
				assert.Equal(t, id, got)

				require.NoError(t, db.QueryRow(form, sql.Null[snowflake.ID]{V: id, Valid: true}).Scan(&got))
				assert.Equal(t, id, got)

				var null sql.Null[snowflake.ID]
				require.NoError(t, db.QueryRow(form, id).Scan(&null))
				assert.Equal(t, sql.Null[snowflake.ID]{V: id, Valid: true}, null)
			}
		})
	}
	t.Run("NULL", func(t *testing.T) {
		null := sql.Null[snowflake.ID]{V: 42, Valid: true}
		require.NoError(t, db.QueryRow("NULL", 0).Scan(&null))
		assert.Equal(t, sql.Null[snowflake.ID]{}, null)

		id := snowflake.ID(42)
		require.Error(t, db.QueryRow("NULL", 0).Scan(&id), "a plain ID cannot hold it")
		assert.Equal(t, snowflake.ID(42), id)

		p := &id
		require.NoError(t, db.QueryRow("NULL", 0).Scan(&p))
		assert.Nil(t, p)
	})
}

func TestUnmarshalJSONSaysWhatIsWrong(t *testing.T) {
	for text, want := range map[string]string{
		`{"id":7}`: `JSON "{\"id\":7}": it is neither a string nor an integer without a sign`,
		`[7]`:      `JSON "[7]": it is neither`,
		`true`:     `JSON "true": it is neither`,
		`-7`:       `JSON "-7": it is neither`,
		``:         `JSON "": it is neither`,
		`"-7"`:     `decimal "-7": it has a character that is not a digit`,
		`1.1e17`:   `decimal "1.1e17": it has a character that is not a digit`,
	} {
		require.ErrorContains(t, new(snowflake.ID).UnmarshalJSON([]byte(text)), "snowflake: invalid ID: "+want)
	}
}

// gin and echo bind parameters to types with an UnmarshalParam method.
func TestUnmarshalParamIsStrict(t *testing.T) {
	var id snowflake.ID
	var param interface{ UnmarshalParam(string) error } = &id
	require.NoError(t, param.UnmarshalParam("1541815603606036480"))
	require.Equal(t, snowflake.ID(1541815603606036480), id)
	for _, s := range []string{"", "+1", "01", " 1", "1.0", "0x1", "9223372036854775808", "-1"} {
		require.ErrorIs(t, param.UnmarshalParam(s), snowflake.ErrInvalidID, s)
		require.Equal(t, snowflake.ID(1541815603606036480), id, "an error leaves it as it was")
	}
}

func TestScanRefusesValuesThatAreNotIDs(t *testing.T) {
	for _, src := range []any{int64(-1), uint64(1 << 63), "", "007", "-5", []byte("+5"), nil, 5.0, true, time.Now()} {
		id := snowflake.ID(42)
		assert.ErrorIsf(t, id.Scan(src), snowflake.ErrInvalidID, "%T %v", src, src)
		assert.EqualValues(t, 42, id)
	}
	var id snowflake.ID
	assert.ErrorContains(t, id.Scan(nil), "scan into *ID or sql.Null[ID]")
	assert.ErrorContains(t, id.Scan(5.0), "the column has type float64; it must be an integer or a text")
	require.NoError(t, id.Scan(uint64(math.MaxInt64)))
	assert.EqualValues(t, int64(math.MaxInt64), id)
}

// Sinks keep the compiler from leaving out what is measured.
var (
	sinkID     snowflake.ID
	sinkString string
	sinkParts  snowflake.Parts
	sinkErr    error
)

// docs/recipes holds it against PostgreSQL.
func TestArrayHasPostgreSQLSyntax(t *testing.T) {
	for want, ids := range map[string][]snowflake.ID{
		"{}":                        nil,
		"{7}":                       {7},
		"{0,9223372036854775807,1}": {0, math.MaxInt64, 1},
	} {
		got, err := snowflake.Array(ids).Value()
		require.NoError(t, err)
		require.Equal(t, driver.Value(want), got)
	}
	got, err := snowflake.Array([]int64{1, 2}).Value()
	require.NoError(t, err)
	require.Equal(t, driver.Value("{1,2}"), got)
}

func TestArrayRefusesNegativeIDs(t *testing.T) {
	for want, ids := range map[string][]snowflake.ID{
		"index 0 of the array: snowflake: invalid ID: -1 is negative":                   {-1},
		"index 2 of the array: snowflake: invalid ID: -9223372036854775808 is negative": {1, 2, math.MinInt64, -1},
	} {
		got, err := snowflake.Array(ids).Value()
		require.Nil(t, got)
		require.ErrorIs(t, err, snowflake.ErrInvalidID)
		require.ErrorContains(t, err, want)
	}
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

// notCanonical are texts that are not the canonical text of an ID in one form at least. They are seeds of the fuzz tests
// below, so each run of the tests parses them in all forms.
var notCanonical = []string{
	// decimal
	"", "-1", "-0", "+1", "-", " 1", "1 ", " ", "\t1", "1\n", "0", "00", "01", strings.Repeat("0", 19) + "1",
	"9223372036854775808", "18446744073709551615", "18446744073709551616", "18446744073709551617", // 2^63, and around 2^64
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
	"-0000000001", "+0000000001", " 0000000001", "0000000001 ", "0000000001\n", "0000000_001", "000000000\x001", "000000000é", "0000000000\xff",
	// long
	strings.Repeat("1", 1<<20), strings.Repeat("0", 1<<20), strings.Repeat("2", 1<<20), strings.Repeat("\x00", 1<<20),
}

func fuzzForm(f *testing.F, form textForm) {
	for _, id := range []snowflake.ID{0, 1, 57, 58, 61, 62, 1<<53 - 1, 1541815603606036480, math.MaxInt64, -1, math.MinInt64} {
		f.Add(form.text(id))
	}
	for _, s := range notCanonical {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) { checkParse(t, form, s) })
}

func FuzzParseID(f *testing.F)     { fuzzForm(f, decimal) }
func FuzzParseBase32(f *testing.F) { fuzzForm(f, base32) }
func FuzzParseBase58(f *testing.F) { fuzzForm(f, base58) }
func FuzzParseBase62(f *testing.F) { fuzzForm(f, base62) }

func FuzzUnmarshalText(f *testing.F) {
	for _, s := range append(notCanonical, "7", "9223372036854775807") {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		const before = snowflake.ID(42)
		got, given := before, bytes.Clone(b)
		err := got.UnmarshalText(b)
		require.Equal(t, given, b, "the text was changed")
		want, ok := slowParse(decimal, string(b))
		if !ok {
			requireRefused(t, 0, err, string(b))
			require.Equal(t, before, got)
			return
		}
		require.NoError(t, err)
		require.Equal(t, want, got)
		text, err := got.MarshalText()
		require.NoError(t, err)
		require.Equal(t, string(b), string(text))
	})
}

// The twin of UnmarshalJSON is encoding/json with a json.Number and a string.
func FuzzUnmarshalJSON(f *testing.F) {
	for _, s := range append(notCanonical, "null", "7", " 7 ", "1541815603606036480", "9223372036854775807", // integers, and what is none
		"1.5", "0.0", "1E3", "1e0", "1.5e1", "-1.5", "07", "nul", "nullx", " null", "Null", "NULL",
		"true", "false", "{}", `{"id":1}`, "[]", "[1]", `["1"]`, `'1'`, // other values
		`"0"`, `"1541815603606036480"`, "\t\"7\"\n", `"9223372036854775807"`, // texts, and what is none
		`"`, `"1`, `1"`, `""1""`, `"1""`, `"1x`, `""`, `" 1"`, `"1 "`, `"-1"`, `"+1"`, `"01"`, `"1e3"`, `"1.0"`, `"null"`, `"true"`,
		`"9223372036854775808"`, `"\"1\""`, `"1\n"`, `"\u0031"`, `"1\u0000"`, "\"7\x00\"", `"１"`) {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		const before = snowflake.ID(42)
		want, ok := slowJSON(b, before)

		got, given := before, bytes.Clone(b)
		err := json.Unmarshal(b, &got)
		require.Equal(t, given, b, "the text was changed")
		if ok {
			require.NoError(t, err)
		} else {
			require.Error(t, err)
		}
		require.Equal(t, want, got)

		// UnmarshalJSON is called directly, with data that may not be JSON at all. It
		// must not panic, nor accept more than encoding/json would have passed on.
		got = before
		if err := got.UnmarshalJSON(b); err != nil {
			requireRefused(t, 0, err, string(b))
			require.Equal(t, before, got)
		} else {
			require.True(t, ok)
			require.Equal(t, want, got)
		}
	})
}

// slowJSON reads b with encoding/json alone; before is what null leaves.
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
