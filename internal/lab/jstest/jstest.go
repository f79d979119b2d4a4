// Package jstest runs JavaScript with node, so that tests can compare it with Go.
package jstest

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
)

// Run runs code, the body of a function in a module with these imports, and decodes its result into
// output. The code can use input, and layoutOf, which converts a Layout. files maps the names of
// further files in the module's directory to their contents.
func Run(t *testing.T, files map[string]string, imports string, input any, code string, output any) {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("node is not installed: apt-get install nodejs")
		}
		t.Skip("node is not installed: apt-get install nodejs")
	}
	dir := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	for name, text := range files {
		write(name, text)
	}
	write("package.json", `{"type":"module"}`)
	write("test.js", imports+`
		import { readFileSync } from "node:fs";
		const layoutOf = (l) => ({ ...l, epoch: BigInt(l.epoch), unit: BigInt(l.unit) });
		const input = JSON.parse(readFileSync(0, "utf8"));
		const result = (() => {`+code+`})();
		process.stdout.write(JSON.stringify(result, (_, v) => typeof v === "bigint" ? v.toString() : v));`)
	in, err := json.Marshal(input)
	require.NoError(t, err)
	cmd := exec.Command(node, filepath.Join(dir, "test.js"))
	cmd.Stdin = bytes.NewReader(in)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, "%s", stderr.String())
	require.NoError(t, json.Unmarshal(out, output))
}

// Layout is a layout for the scripts. Its epoch and unit are texts, because JSON would round them.
type Layout struct {
	Epoch          int64 `json:"epoch,string"`
	Unit           int64 `json:"unit,string"`
	TimeBits       uint8 `json:"timeBits"`
	ClockSeqBits   uint8 `json:"clockSeqBits"`
	DatacenterBits uint8 `json:"datacenterBits"`
	WorkerBits     uint8 `json:"workerBits"`
	SequenceBits   uint8 `json:"sequenceBits"`
	WorkerLast     bool  `json:"workerLast"`
}

// LayoutOf returns the layout for the scripts.
func LayoutOf(l snowflake.Layout) Layout {
	return Layout{int64(l.Epoch), int64(l.Unit), l.TimeBits, l.ClockSeqBits, l.DatacenterBits, l.WorkerBits, l.SequenceBits, l.WorkerLast}
}

// RandomLayout returns a layout that may be invalid.
func RandomLayout(r *rand.Rand) snowflake.Layout {
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
