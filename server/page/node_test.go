package page

import (
	"bytes"
	"encoding/json"
	"fmt"
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
	script.Write(serverScript(snowflake.DefaultLayout()))
	for _, name := range []string{"snowflake.js", "identify.js", "design.js"} {
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
	underNode(t, log, `const [r] = identify.read(input).readings; return { Form: r.form, Items: r.items.map(({ id, line }) => ({ ID: id, Line: line })) };`, &got)
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
			identify.read(input.repeat(10_000));
			return calls;`, &calls)
		assert.Less(t, calls, 100, letter)
	}
}
