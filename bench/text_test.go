package bench

import (
	"encoding/json"
	"strconv"
	"testing"
	"time"

	bwmarrin "github.com/bwmarrin/snowflake"
	disgoorg "github.com/disgoorg/snowflake/v2"
	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/lab/servertest"
	sonyflake1 "github.com/sony/sonyflake"
	sonyflake2 "github.com/sony/sonyflake/v2"
)

const sample = 1541815603606036480 // an ID of Twitter

// The benchmarks store their results here, so that the compiler does not remove calls.
var (
	text   string
	buffer []byte
	number int64
	parts  snowflake.Parts
	when   time.Time
)

// form is one way to write or to read an ID.
type form struct {
	name string
	do   func() error
}

// forms returns our forms, bwmarrin's forms of the same bases (its base 32 has another alphabet,
// and it has no base 62), and the standard library's forms of an int64.
func forms() []form {
	id, theirs, plain := snowflake.ID(sample), bwmarrin.ID(sample), int64(sample)
	s10, s32, s58, s62 := id.String(), id.Base32(), id.Base58(), id.Base62()
	b32, b58 := []byte(theirs.Base32()), []byte(theirs.Base58())
	quoted := []byte(`"` + s10 + `"`)
	scratch := make([]byte, 0, 32)

	type plainRow struct {
		ID int64 `json:"id,string"`
	}
	type ourRow struct {
		ID snowflake.ID `json:"id"`
	}
	type theirRow struct {
		ID bwmarrin.ID `json:"id"`
	}
	row := []byte(`{"id":` + string(quoted) + `}`)

	return []form{
		{"form=decimal/do=write/lib=ours", func() error { text = id.String(); return nil }},
		{"form=decimal/do=write/lib=bwmarrin", func() error { text = theirs.String(); return nil }},
		{"form=decimal/do=write/lib=strconv", func() error { text = strconv.FormatInt(plain, 10); return nil }},
		{"form=decimal/do=append/lib=ours", func() (err error) { buffer, err = id.AppendText(scratch); return err }},
		{"form=decimal/do=append/lib=strconv", func() error { buffer = strconv.AppendInt(scratch, plain, 10); return nil }},
		{"form=decimal/do=read/lib=ours", func() error { v, err := snowflake.ParseID(s10); number = int64(v); return err }},
		{"form=decimal/do=read/lib=bwmarrin", func() error { v, err := bwmarrin.ParseString(s10); number = int64(v); return err }},
		{"form=decimal/do=read/lib=strconv", func() (err error) { number, err = strconv.ParseInt(s10, 10, 64); return err }},

		{"form=base32/do=write/lib=ours", func() error { text = id.Base32(); return nil }},
		{"form=base32/do=write/lib=bwmarrin", func() error { text = theirs.Base32(); return nil }},
		{"form=base32/do=write/lib=strconv", func() error { text = strconv.FormatInt(plain, 32); return nil }},
		{"form=base32/do=read/lib=ours", func() error { v, err := snowflake.ParseBase32(s32); number = int64(v); return err }},
		{"form=base32/do=read/lib=bwmarrin", func() error { v, err := bwmarrin.ParseBase32(b32); number = int64(v); return err }},

		{"form=base58/do=write/lib=ours", func() error { text = id.Base58(); return nil }},
		{"form=base58/do=write/lib=bwmarrin", func() error { text = theirs.Base58(); return nil }},
		{"form=base58/do=read/lib=ours", func() error { v, err := snowflake.ParseBase58(s58); number = int64(v); return err }},
		{"form=base58/do=read/lib=bwmarrin", func() error { v, err := bwmarrin.ParseBase58(b58); number = int64(v); return err }},

		{"form=base62/do=write/lib=ours", func() error { text = id.Base62(); return nil }},
		{"form=base62/do=read/lib=ours", func() error { v, err := snowflake.ParseBase62(s62); number = int64(v); return err }},

		{"form=json-method/do=write/lib=ours", func() (err error) { buffer, err = id.MarshalText(); return err }},
		{"form=json-method/do=write/lib=bwmarrin", func() (err error) { buffer, err = theirs.MarshalJSON(); return err }},
		{"form=json-method/do=read/lib=ours", func() error { var v snowflake.ID; err := v.UnmarshalJSON(quoted); number = int64(v); return err }},
		{"form=json-method/do=read/lib=bwmarrin", func() error { var v bwmarrin.ID; err := v.UnmarshalJSON(quoted); number = int64(v); return err }},

		{"form=json/do=write/lib=ours", func() (err error) { buffer, err = json.Marshal(ourRow{id}); return err }},
		{"form=json/do=write/lib=bwmarrin", func() (err error) { buffer, err = json.Marshal(theirRow{theirs}); return err }},
		{"form=json/do=write/lib=int64", func() (err error) { buffer, err = json.Marshal(plainRow{plain}); return err }},
		{"form=json/do=read/lib=ours", func() error { var r ourRow; err := json.Unmarshal(row, &r); number = int64(r.ID); return err }},
		{"form=json/do=read/lib=bwmarrin", func() error { var r theirRow; err := json.Unmarshal(row, &r); number = int64(r.ID); return err }},
		{"form=json/do=read/lib=int64", func() error { var r plainRow; err := json.Unmarshal(row, &r); number = r.ID; return err }},
	}
}

// BenchmarkText writes and reads an ID in each form.
func BenchmarkText(b *testing.B) {
	for _, bench := range forms() {
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := bench.do(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// returnParts is the part of Decode's cost that only returns a Parts.
//
//go:noinline
func returnParts(id int64) (p snowflake.Parts) {
	p.Sequence = int(id)
	return p
}

// BenchmarkDecode decodes an ID into time, worker and sequence.
func BenchmarkDecode(b *testing.B) {
	v1 := servertest.Must(newSonyflake1(b).NextID())(b)
	v2 := newSonyflake2(b, sonyflake2.Settings{})
	newBwmarrin(b, 10, 12) // sets the bits that its IDs are read by
	g := servertest.Must(snowflake.New(1, nil))(b)
	for _, bench := range []struct {
		name string
		do   func(id int64)
	}{
		{"lib=ours/call=Decode", func(id int64) { parts = snowflake.Decode(snowflake.ID(id)) }},
		{"lib=ours/call=Generator.Decode", func(id int64) { parts = g.Decode(snowflake.ID(id)) }},
		{"lib=none/call=Parts", func(id int64) { parts = returnParts(id) }},
		{"lib=none/call=UnixMilli", func(id int64) { when = time.UnixMilli(id).UTC() }},
		{"lib=bwmarrin/call=Time,Node,Step", func(id int64) {
			v := bwmarrin.ID(id)
			number = v.Time() + v.Node() + v.Step()
		}},
		{"lib=bwmarrin/call=Time,Node,Step,UnixMilli", func(id int64) {
			v := bwmarrin.ID(id)
			when, number = time.UnixMilli(v.Time()), v.Node()+v.Step()
		}},
		{"lib=disgoorg/call=Deconstruct", func(id int64) {
			p := disgoorg.ID(id).Deconstruct()
			when, number = p.Time, int64(p.WorkerID)+int64(p.Sequence)
		}},
		{"lib=sonyflake-v1/call=Decompose", func(id int64) {
			m := sonyflake1.Decompose(v1 + uint64(id&1))
			number = int64(m["time"] + m["machine-id"] + m["sequence"])
		}},
		{"lib=sonyflake-v2/call=Decompose", func(id int64) {
			m := v2.Decompose(id)
			number = m["time"] + m["machine"] + m["sequence"]
		}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			id := int64(sample)
			for b.Loop() {
				bench.do(id)
				id++
			}
		})
	}
}
