package page

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/depth"
	"github.com/seed-5394e6b1/snowflake/internal/layouts"
)

// underNode runs the page's scripts except page.js, and then code,
// which reads the value called input and returns a value as JSON.
func underNode(t *testing.T, input any, code string, output any) {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("node is not installed: apt-get install nodejs")
		}
		t.Skip("node is not installed: apt-get install nodejs")
	}
	var script bytes.Buffer
	for _, name := range []string{"snowflake.js", "layouts.js", "identify.js", "design.js"} {
		text, err := files.ReadFile(name)
		require.NoError(t, err)
		script.Write(text)
	}
	script.WriteString("const input = JSON.parse(require('fs').readFileSync(0, 'utf8'));\n" +
		"const result = (() => {\n" + code + "\n})();\n" +
		"process.stdout.write(JSON.stringify(result, (_, v) => typeof v === 'bigint' ? v.toString() : v));\n")
	path := t.TempDir() + "/test.js"
	require.NoError(t, os.WriteFile(path, script.Bytes(), 0o600))
	in, err := json.Marshal(input)
	require.NoError(t, err)
	cmd := exec.Command(node, path)
	cmd.Stdin = bytes.NewReader(in)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, "%s", stderr.String())
	require.NoError(t, json.Unmarshal(out, output))
}

// fields is a layout as the scripts read it.
type fields struct {
	Epoch          int64 `json:"epoch,string"`
	Unit           int64 `json:"unit,string"`
	TimeBits       uint8 `json:"timeBits"`
	ClockSeqBits   uint8 `json:"clockSeqBits"`
	DatacenterBits uint8 `json:"datacenterBits"`
	WorkerBits     uint8 `json:"workerBits"`
	SequenceBits   uint8 `json:"sequenceBits"`
	WorkerLast     bool  `json:"workerLast"`
}

func fieldsOf(l snowflake.Layout) fields {
	return fields{int64(l.Epoch), int64(l.Unit), l.TimeBits, l.ClockSeqBits, l.DatacenterBits, l.WorkerBits, l.SequenceBits, l.WorkerLast}
}

const layoutOf = "const layoutOf = (l) => ({ ...l, epoch: BigInt(l.epoch), unit: BigInt(l.unit) });\n"

// randomLayout returns a layout that may be invalid.
func randomLayout(r *rand.Rand) snowflake.Layout {
	units := []time.Duration{1, 1000, time.Millisecond, 10 * time.Millisecond, time.Second, time.Minute, time.Hour, 90 * time.Minute,
		1500 * time.Microsecond, time.Duration(r.Int64N(1e12)), time.Duration(r.Int64() >> r.IntN(63))}
	l := snowflake.Layout{
		Epoch: snowflake.Epoch(r.Int64N(1<<42) - 1<<40), Unit: units[r.IntN(len(units))],
		TimeBits: uint8(r.IntN(50)), WorkerBits: uint8(r.IntN(16)), SequenceBits: uint8(r.IntN(16)), WorkerLast: r.IntN(4) == 0,
	}
	if r.IntN(3) == 0 {
		l.ClockSeqBits = uint8(r.IntN(6))
	}
	if r.IntN(3) == 0 {
		l.DatacenterBits = uint8(r.IntN(8))
	}
	if r.IntN(3) == 0 {
		l.Epoch = l.Epoch / 86400000 * 86400000
	}
	if r.IntN(20) == 0 {
		l.Unit = -l.Unit
	}
	return l
}

// The page computes as the library does. If it refuses a layout, it uses the library's words.
func TestArithmeticEqualsTheLibrarys(t *testing.T) {
	type question struct {
		Layout fields `json:"layout"`
		ID     int64  `json:"id,string"`
	}
	type answer struct{ Parts, Error, Checked, Expires, Again, Base32, Base58, Base62 string }
	r := rand.New(rand.NewPCG(1, 2))
	var questions []question
	var want []answer
	for range depth.Of(2000, 100_000) {
		l := randomLayout(r)
		id := snowflake.ID(r.Int64() >> r.IntN(63))
		questions = append(questions, question{fieldsOf(l), int64(id)})
		a := answer{Base32: id.Base32(), Base58: id.Base58(), Base62: id.Base62()}
		if err := l.Validate(); err != nil {
			a.Error = strings.TrimPrefix(err.Error(), "snowflake: invalid layout: ")
			want = append(want, a)
			continue
		}
		a.Expires = strings.Fields(snowflake.Parts{Time: l.Expires()}.String())[0]
		if err := l.Check(id); err != nil {
			a.Checked = strings.TrimPrefix(err.Error(), "snowflake: invalid ID: ")
		} else {
			a.Parts, a.Again = l.Decode(id).String(), id.String()
		}
		want = append(want, a)
	}
	var got []answer
	underNode(t, questions, layoutOf+`
		const said = (f) => { try { f(); return ""; } catch (e) { return e.message; } };
		return input.map(({ layout, id: text }) => {
			const l = layoutOf(layout), id = BigInt(text);
			const a = { Base32: snowflake.base32(id), Base58: snowflake.base58(id), Base62: snowflake.base62(id), Error: said(() => snowflake.validate(l)) };
			if (a.Error) return a;
			a.Expires = "time=" + snowflake.formatTime(snowflake.expires(l));
			a.Checked = said(() => snowflake.check(l, id));
			if (a.Checked) return a;
			const parts = snowflake.decode(l, id);
			return { ...a, Parts: snowflake.format(parts), Again: snowflake.encode(l, parts).toString() };
		});`, &got)
	require.Len(t, got, len(want))
	refused := 0
	for i := range want {
		require.Equal(t, want[i], got[i], "%+v", questions[i])
		if want[i].Error != "" {
			refused++
		}
	}
	t.Logf("%d layouts, of which %d are refused", len(want), refused)
	require.Positive(t, refused)
}

// issue returns IDs of a layout: of some generators, in bursts, now and then with a foreign one.
func issue(r *rand.Rand, l snowflake.Layout, now time.Time, n int) (ids []snowflake.ID) {
	end := now
	if l.Expires().Before(end) {
		end = l.Expires().Add(-time.Hour)
	}
	start := end.Add(-time.Duration(r.Int64N(int64(20 * 365 * 24 * time.Hour))))
	for len(ids) < n {
		p := snowflake.Parts{Time: start.Add(time.Duration(r.Int64N(int64(time.Hour) >> r.IntN(30)))), Worker: r.IntN(1 << min(l.WorkerBits, 3)), Datacenter: r.IntN(1 << l.DatacenterBits)}
		if r.IntN(2) == 0 {
			p.Sequence = r.IntN(1 << l.SequenceBits)
		}
		if l.ClockSeqBits > 0 && r.IntN(5) == 0 {
			p.ClockSeq = 1
		}
		id, err := l.Encode(p)
		if err != nil || r.IntN(30) == 0 {
			id = snowflake.ID(r.Int64() >> r.IntN(40))
		}
		ids = append(ids, id)
		if r.IntN(3) == 0 && l.SequenceBits > 0 {
			ids = append(ids, id+1&math.MaxInt64)
		}
	}
	return ids[:n]
}

// The page ranks layouts as internal/layouts does, with the same words.
func TestRankingEqualsTheCommands(t *testing.T) {
	type match struct {
		Name  string
		Share float64
		Why   []string
		Not   string
	}
	r := rand.New(rand.NewPCG(3, 4))
	now := time.Date(2026, 11, 20, 12, 0, 0, 123_456_789, time.UTC)
	known := layouts.All()
	var questions [][]snowflake.ID
	cases := depth.Of(700, 30_000)
	for i := range cases {
		switch k := known[i%len(known)]; {
		case i%7 == 0:
			questions = append(questions, []snowflake.ID{snowflake.ID(r.Int64() >> r.IntN(63))})
		case i%100 == 1:
			questions = append(questions, issue(r, k.Layout, now, 100))
		default:
			questions = append(questions, issue(r, k.Layout, now, 1+r.IntN(3)*r.IntN(5)))
		}
	}
	questions = append(questions, nil, []snowflake.ID{0}, []snowflake.ID{math.MaxInt64}, []snowflake.ID{5, 5, 5})
	var got [][]match
	underNode(t, questions, `
		return input.map((ids) => identify.rank((ids ?? []).map(BigInt), `+fmt.Sprint(now.UnixNano())+`n)
			.map((m) => ({ Name: m.known.name, Share: m.share, Why: m.why, Not: m.not })));`, &got)
	require.Len(t, got, len(questions))
	for i, ids := range questions {
		want := layouts.Rank(ids, now)
		require.Len(t, got[i], len(want))
		of := map[string]match{}
		for _, g := range got[i] {
			of[g.Name] = g
		}
		for j, w := range want {
			g := of[w.Name]
			// The two languages' logarithms differ in the last digit.
			require.InDelta(t, w.Share, g.Share, 1e-9, "%s of %v", w.Name, ids)
			require.Equal(t, w.Not, g.Not, "%s of %v", w.Name, ids)
			require.Equal(t, strings.Join(w.Why, "; "), strings.Join(g.Why, "; "), "%s of %v", w.Name, ids)
			if at := got[i][j]; at.Name != w.Name {
				require.InEpsilon(t, w.Share, at.Share, 1e-9, "place %d of %v: %s, not %s", j, ids, at.Name, w.Name)
			}
		}
	}
}

// The forms in which the page reads words are internal/layouts' too. The page
// also offers base 58 and 62 for digits.
func TestReadingsEqualTheCommands(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	var questions [][]string
	writers := []func(snowflake.ID) string{snowflake.ID.String, snowflake.ID.Base32, snowflake.ID.Base58, snowflake.ID.Base62}
	for range depth.Of(1000, 20_000) {
		write := writers[r.IntN(len(writers))]
		var words []string
		for range 1 + r.IntN(3) {
			words = append(words, write(snowflake.ID(r.Int64()>>r.IntN(63))))
		}
		questions = append(questions, words)
	}
	questions = append(questions, []string{"3jzfcijpj2z2a", "2222222222222"}, []string{"0"}, []string{"00"}, []string{"1", "x!"})
	var got []map[string][]snowflake.ID
	underNode(t, questions, `
		return input.map((words) => Object.fromEntries(identify.read(words.join("\n"), 1763000000000000000n).readings
			.filter((r) => r.errors.length === 0).map((r) => [r.form, r.items.map((i) => i.id)])));`, &got)
	for i, words := range questions {
		all, err := layouts.Read(words)
		if err != nil {
			require.Empty(t, got[i], "%q", words)
			continue
		}
		for _, want := range all {
			require.Equal(t, want.IDs, got[i][want.Form], "%q in %s", words, want.Form)
		}
		if all[0].Form != "decimal" {
			require.Len(t, got[i], len(all), "%q", words)
		}
	}
}

// If the page refuses a text, it uses the library's words.
func TestRefusedTextsAreExplained(t *testing.T) {
	cases := []struct{ text, says string }{
		{"9223372036854775808", `decimal "9223372036854775808": it is over 9223372036854775807`},
		{"99999999999999999999999", "it is over 9223372036854775807"},
		{"-1", `decimal "-1": it has a character that is not a digit`},
		{"007", `decimal "007": it has a leading zero`},
		{"npL6MjP8Qfd", `base 62 "npL6MjP8Qfd": it is over 9223372036854775807`},
		{"ZZZZZZZZZZZZZ", `base 32 "ZZZZZZZZZZZZZ": it is over 9223372036854775807`},
		{"zzzzzzz-zzz", `base 62 "zzzzzzz-zzz": it has a character outside of the alphabet`},
		{"x!", `base 58 "x!": it has a character outside of the alphabet`},
		{"018f6b1e-5c3b-7c8e-9d2a-0123456789ab", `"018f6b1e-5c3b-7c8e-9d2a-0123456789ab" is a UUID, version 7, which has more than 64 bits`},
		{"01ARZ3NDEKTSV4RRFFQ69G5FAV", "a ULID"},
		{"brpk4q72xwf2m63l", "muyo/sno"},
		{"507f1f77bcf86cd799439011", "ObjectID"},
		{"9m4e2mr0ui3e8a215n4g", "rs/xid"},
		{"order\u202exyz", `"order\u202exyz"`},
		{"two words", "no ID in 2 words"},
		{strings.Repeat("A", 100_000), `"` + strings.Repeat("A", 32) + `"... has 100000 characters`},
	}
	var texts []string
	for _, c := range cases {
		texts = append(texts, c.text)
	}
	var got []struct {
		Reason   string
		Readings int
	}
	underNode(t, texts, `return input.map((text) => {
		const r = identify.read(text, 1763000000000000000n);
		return { Reason: r.reason, Readings: r.readings.length };
	});`, &got)
	for i, c := range cases {
		assert.Zero(t, got[i].Readings, "%.50q", c.text)
		assert.Contains(t, got[i].Reason, c.says, "%.50q", c.text)
	}
}

func TestLogLinesAreSearched(t *testing.T) {
	log := "2026-11-20T12:00:00.123456789Z INFO order id=117469438034313216 took 1234567890123456ms\n" +
		"\n" +
		"{\"id\":\"117469438034313217\",\"parent\":117469438034313218}\r\n" +
		"no id here 1763000000 0.123456789012345678 x123456789012345678 99999999999999999999\n" +
		"1541815603606036480,1541815603606036481"
	var got struct {
		Form  string
		Items []struct {
			ID   snowflake.ID
			Line int
		}
	}
	underNode(t, log, `const [r] = identify.read(input, 0n).readings; return { Form: r.form, Items: r.items.map(({ id, line }) => ({ ID: id, Line: line })) };`, &got)
	var text strings.Builder
	for _, item := range got.Items {
		fmt.Fprintf(&text, "%d:%d ", item.Line, item.ID)
	}
	assert.Equal(t, "log", got.Form)
	assert.Equal(t, "1:117469438034313216 3:117469438034313217 3:117469438034313218 5:1541815603606036480 5:1541815603606036481 ", text.String())
}

// If a text has a megabyte, it is refused by its length: the page would take minutes if it grew a BigInt by each
// character.
func TestLongTextsAreNotComputedWith(t *testing.T) {
	for _, letter := range []string{"a", "9", "2", "Z", "-"} {
		var calls int
		underNode(t, letter, `
			const real = BigInt;
			let calls = 0;
			globalThis.BigInt = (v) => (calls++, real(v));
			identify.read(input.repeat(10_000), 0n);
			return calls;`, &calls)
		assert.Less(t, calls, 100, letter)
	}
}
