package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
)

// newID returns an ID of now.
func newID(t *testing.T, l snowflake.Layout) snowflake.ID {
	id, err := l.Encode(snowflake.Parts{Time: time.Now(), Worker: 3})
	require.NoError(t, err)
	return id
}

func TestIdentify(t *testing.T) {
	id := newID(t, snowflake.SonyflakeLayout())
	for _, text := range []string{id.String(), id.Base32(), id.Base62(), id.Base58()} {
		out := succeed(t, "identify", text)
		assert.Regexp(t, `^ *\d+%  sonyflake`, out, text)
		assert.Contains(t, out, "worker 3; sequence 0", text)
	}
	assert.Equal(t, 1, strings.Count(succeed(t, "identify", "-n", "1", id.String()), "its time is"))
	assert.Contains(t, succeed(t, "identify", id.String()), "the time would lie in the future: ")

	out, errs, status := runInput(strings.NewReader("\r\n"+id.String()+"\r\n \""+(id+1<<16).String()+"\",\n"), "identify", "-")
	assert.Zero(t, status, errs)
	assert.Regexp(t, `^ *\d+%  sonyflake`, out)
	assert.Contains(t, out, "1 generator; 1 tick; sequences up to 1")
}

func TestIdentifySaysIfNoLayoutFits(t *testing.T) {
	assert.Contains(t, succeed(t, "identify", "9223372036854775807"), "no known layout: another layout")
}

func TestIdentifyRefusesInput(t *testing.T) {
	for args, names := range map[string]string{
		"identify":                            "IDs",
		"identify - 5":                        "by itself",
		"identify x-y":                        `"x-y"`,
		"identify 5 -5":                       `"-5"`,
		"identify 01ARZ3NDEKTSV4RRFFQ69G5FAV": "a ULID",
		"identify -n 0 5":                     "-n 0",
	} {
		out, errs, status := runCLI(strings.Fields(args)...)
		assert.Equal(t, exitUsage, status, args)
		assert.Empty(t, out)
		requireOneLine(t, errs)
		assert.Contains(t, errs, names)
	}
	_, errs, status := runInput(strings.NewReader("\n"), "identify", "-")
	assert.Equal(t, exitFailure, status)
	assert.Contains(t, errs, "no IDs")
}

func TestDecodeOfAFutureIDSuggestsAnotherLayout(t *testing.T) {
	id := newID(t, snowflake.BwmarrinLayout()).String()
	out, errs, status := runCLI("decode", id)
	assert.Equal(t, exitOK, status)
	assert.True(t, strings.HasPrefix(out, id+" time=20"))
	requireOneLine(t, errs)
	assert.Contains(t, errs, "the time of "+id+" lies in the future")
	assert.Contains(t, errs, "most likely bwmarrin (")
	_, errs, _ = runCLI("decode", "-layout", "bwmarrin", id)
	assert.Empty(t, errs)
}

func TestDecodeLines(t *testing.T) {
	in := "291\n\n  \"582\",\r\n0x7\r291\r12\x00\n9223372036854775808\n" + strings.Repeat("9", 1<<20) + "\n291"
	out, errs, status := runInput(strings.NewReader(in), "decode", "-lines", "-layout", "8/4/4")
	assert.Equal(t, exitFailure, status)
	const is = "291 time=2026-01-01T00:00:00.001Z clockseq=0 datacenter=0 worker=2 sequence=3\n"
	assert.Equal(t, is+"582 time=2026-01-01T00:00:00.002Z clockseq=0 datacenter=0 worker=4 sequence=6\n"+is+is, out)
	for _, want := range []string{
		`line 4: invalid ID: decimal "0x7": it has a leading zero`,
		`line 6: invalid ID: decimal "12\x00": it has a character that is not a digit`,
		`line 7: invalid ID: decimal "9223372036854775808": it is over 9223372036854775807`,
		`line 8: invalid ID: the line is longer than 65536 bytes`,
		`4 lines of 9 had no ID of the layout`,
	} {
		assert.Contains(t, errs, want+"\n")
	}
	assert.Equal(t, 5, strings.Count(errs, "\n"))
	_, errs, status = runCLI("decode", "-lines", "5")
	assert.Equal(t, exitUsage, status)
	assert.Contains(t, errs, `"5"`)
}

// Every command has -json, and what it prints then is JSON.
func TestJSON(t *testing.T) {
	dir := t.TempDir()
	id := strings.TrimSpace(succeed(t, "new", "-dir", dir))
	for args, want := range map[string]string{
		"new -n 2":                      `"worker":0`,
		"decode " + id:                  `{"id":"` + id + `","time":"`,
		"identify " + id:                `"form":"decimal","name":"default"`,
		"range 2026-01-01 2026-01-02":   `{"hi":"362387865600000","lo":"0"}`,
		"layout":                        `"name":"sonyflake"`,
		"layout 41/10/12":               `"expires":"2095-09-07T15:47:35.552Z"`,
		"worker -dir " + dir:            `[{"now":"free","worker":0,`,
		"whois -dir " + dir + " " + id:  `{"id":"` + id + `","holder":{"worker":0,`,
		"version":                       `"go":"go`,
		"decode -layout sonyflake 9999": `"worker":9999`,
	} {
		out := succeed(t, append(strings.Fields(args), "-json")...)
		assert.Contains(t, out, want, args)
		for _, line := range lines(out) {
			assert.True(t, json.Valid([]byte(line)), line)
		}
	}
	out, _, status := runInput(strings.NewReader("a "+id+" b "+id+"\n7"), "decode", "-", "-json")
	assert.Zero(t, status)
	assert.Equal(t, strings.Repeat(succeed(t, "decode", "-json", id), 2), out)
}

func TestVersion(t *testing.T) {
	assert.Regexp(t, `^snowflake \S+( \([0-9a-f]+\))?, go1\.\S+ \S+/\S+\n$`, succeed(t, "version"))
}
