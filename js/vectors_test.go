package js_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"flag"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/lab/jstest"
	"github.com/seed-5394e6b1/snowflake/layouts"
	"github.com/seed-5394e6b1/snowflake/opaque"
	"github.com/seed-5394e6b1/snowflake/typed"
)

var update = flag.Bool("update", false, "rewrite vectors.json")

// vectors is the content of vectors.json. An ID is in decimal.
type vectors struct {
	Layouts []layoutVectors  `json:"layouts"` // the known layouts
	Typed   []typedVector    `json:"typed"`
	Opaque  []opaqueVector   `json:"opaque"`
	Refused []refusedVectors `json:"refused"`
}

// layoutVectors has the fields of a layout, as the table of package layouts: the epoch in Unix
// milliseconds, the unit in nanoseconds, the bits of each field, and workerLast if the worker is
// below the sequence.
type layoutVectors struct {
	Name string `json:"name"`
	jstest.Layout
	IDs []idVector `json:"ids"` // the smallest and the greatest ID among them
}

type idVector struct {
	ID         snowflake.ID `json:"id"`
	Time       string       `json:"time"` // in Unix nanoseconds
	ClockSeq   int          `json:"clockSeq"`
	Datacenter int          `json:"datacenter"`
	Worker     int          `json:"worker"`
	Sequence   int          `json:"sequence"`
	Base32     string       `json:"base32"` // 13 digits of Crockford's
	Base58     string       `json:"base58"` // the shortest text, in bwmarrin's alphabet
	Base62     string       `json:"base62"` // 11 digits, in the order of ASCII
}

// typedVector is an ID with a prefix, as package typed writes it.
type typedVector struct {
	Prefix string       `json:"prefix"`
	ID     snowflake.ID `json:"id"`
	Text   string       `json:"text"`
}

// opaqueVector is an ID as package opaque writes it. snowflake.test.js makes the texts and the
// number with the crypto of Node.js.
type opaqueVector struct {
	Key     string       `json:"key"` // in hexadecimal
	Purpose string       `json:"purpose"`
	Prefix  string       `json:"prefix"` // may be empty
	ID      snowflake.ID `json:"id"`
	Base62  string       `json:"base62"`
	Base32  string       `json:"base32"`
	Int     int64        `json:"int,string"` // the ID's number
}

// refusedVectors has texts that a reader of a form must refuse; those of the form "opaque" under
// the key and the purpose of the opaque vectors.
type refusedVectors struct {
	Form  string   `json:"form"`
	Texts []string `json:"texts"`
}

// forms are the parsers whose refusals are in the vectors.
var forms = map[string]func(string) (snowflake.ID, error){
	"decimal": snowflake.ParseID, "base32": snowflake.ParseBase32, "base58": snowflake.ParseBase58, "base62": snowflake.ParseBase62,
	"typed": func(text string) (snowflake.ID, error) { a, err := typed.ParseAny(text); return a.ID, err },
	"opaque": func(text string) (snowflake.ID, error) {
		c, err := opaque.New(opaqueKey(), "order")
		if err != nil {
			return 0, err
		}
		return c.Decode(text)
	},
}

// opaqueKey is no secret.
func opaqueKey() []byte {
	key := make([]byte, opaque.KeySize)
	for i := range key {
		key[i] = byte(i)
	}
	return key
}

// current returns the library's vectors.
func current(t *testing.T) vectors {
	v := vectors{Refused: []refusedVectors{
		{"decimal", []string{"", "-1", "+1", "01", "1 ", "1.0", "1e3", "9223372036854775808"}},
		{"base32", []string{"", "8000000000000", "7zzzzzzzzzzzz", "000000000000I", "000000000000", "00000000000000"}},
		{"base58", []string{"", "0", "l", "11", "npL6MjP8Qfd", "111111111111"}},
		{"base62", []string{"", "0", "AzL8n0Y58m8", "0000000000-", "000000000000"}},
		{"typed", []string{"", "order", "order_", "_0000000000000", "order_000000000000", "order_8000000000000", "order_000000000000I"}},
		{"opaque", []string{"", "0000000000000000000000", "000000000000000000000", "7n42DGM5Tflk9n8mt7Fhc7"}},
	}}
	for _, k := range layouts.All() {
		l := k.Layout
		lv := layoutVectors{Name: k.Name, Layout: jstest.LayoutOf(l)}
		ids := []snowflake.ID{0, 1, snowflake.ID(1)<<(l.TimeBits+l.ClockSeqBits+l.DatacenterBits+l.WorkerBits+l.SequenceBits) - 1}
		for _, year := range []int{2024, 2028} {
			id, err := l.Encode(snowflake.Parts{
				Time:       time.Date(year, 2, 29, 12, 34, 56, 789_012_345, time.UTC),
				ClockSeq:   1<<l.ClockSeqBits - 1,
				Datacenter: 1<<l.DatacenterBits - 1,
				Worker:     5 % (1 << l.WorkerBits),
				Sequence:   42 % (1 << l.SequenceBits),
			})
			if err == nil { // the layout has the year
				ids = append(ids, id)
			}
		}
		for _, id := range ids {
			p := l.Decode(id)
			lv.IDs = append(lv.IDs, idVector{id, nanos(p.Time), p.ClockSeq, p.Datacenter, p.Worker, p.Sequence, id.Base32(),
				id.Base58(), id.Base62()})
		}
		v.Layouts = append(v.Layouts, lv)
	}
	for _, prefix := range []string{"order", "a", "line_item"} {
		for _, id := range []snowflake.ID{0, 117469438034313216, 1<<63 - 1} {
			text := typed.Any{Prefix: prefix, ID: id}.String()
			_, err := typed.ParseAny(text)
			require.NoError(t, err)
			v.Typed = append(v.Typed, typedVector{prefix, id, text})
		}
	}
	for _, prefix := range []string{"", "order"} {
		for _, id := range []snowflake.ID{0, 1, 117469438034313216, 1<<63 - 1} {
			c, err := opaque.New(opaqueKey(), "order")
			require.NoError(t, err)
			if prefix != "" {
				c, err = c.WithPrefix(prefix)
				require.NoError(t, err)
			}
			v.Opaque = append(v.Opaque, opaqueVector{hex.EncodeToString(opaqueKey()), "order", prefix, id, c.Encode(id),
				c.EncodeBase32(id), c.EncodeInt(id)})
		}
	}
	return v
}

// Libraries in other languages test against these vectors, so existing ones do not change.
func TestVectors(t *testing.T) {
	v := current(t)
	for _, r := range v.Refused {
		for _, text := range r.Texts {
			_, err := forms[r.Form](text)
			require.ErrorIs(t, err, snowflake.ErrInvalidID, "%s %q", r.Form, text)
		}
	}
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetIndent("", " ")
	require.NoError(t, e.Encode(v))
	if *update {
		require.NoError(t, os.WriteFile("vectors.json", text.Bytes(), 0o644))
	}
	file, err := os.ReadFile("vectors.json")
	require.NoError(t, err)
	require.Equal(t, string(file), text.String(), "if a layout is new, first add it to snowflake.js, in Go's order, and to "+
		"snowflake.d.ts; then go test ./js -run Vectors -update rewrites the file")
}
