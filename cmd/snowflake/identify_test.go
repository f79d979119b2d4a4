package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/layouts"
)

// newID returns an ID of now.
func newID(t *testing.T, l snowflake.Layout) snowflake.ID {
	id, err := l.Encode(snowflake.Parts{Time: time.Now(), Worker: 3})
	require.NoError(t, err)
	return id
}

func TestIdentify(t *testing.T) {
	id := newID(t, layouts.Sonyflake())
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

// What the command issues is its own, however many IDs come from one tick.
func TestIdentifyOfNewIDs(t *testing.T) {
	for _, args := range []string{"new -n 1", "new -n 100", "new -n 1000", "new -n 1000 --worker 2"} {
		out, errs, status := runInput(strings.NewReader(succeed(t, strings.Fields(args)...)), "identify", "-")
		assert.Zero(t, status, errs)
		assert.Regexp(t, `^ *9\d%  default`, out, args)
	}
}

func TestIdentifyNamesWhatOnlyTheEpochTellsApart(t *testing.T) {
	out := succeed(t, "identify", "1541815603606036480")
	first := lines(out)[0]
	assert.Contains(t, first, "discord (2026-08-25)")
	assert.Contains(t, first, "twitter (2022-06-28)")
	assert.Contains(t, first, "only the epoch or a field's name tells them apart")
}

func TestIdentifyOfURLs(t *testing.T) {
	for url, want := range map[string]string{
		"https://x.com/a/status/1541815603606036480?s=20":                                     "100%  twitter.*2022-06-28T16:07:40.105Z",
		"https://mobile.twitter.com/a/status/1541815603606036480/photo/1":                     "100%  twitter.*2022-06-28T16:07:40.105Z",
		"https://discord.com/channels/41771983423143937/41771983423143937/175928847299117063": "100%  discord.*2016-04-30T11:18:25.796Z",
		"https://www.instagram.com/p/BsOGulcndj-/":                                            "100%  instagram.*2019-01-04T17:05:45.106Z",
		"https://bsky.app/profile/a.example/post/3jzfcijpj2z2a":                               "100%  atproto-tid.*2023-06-30",
		"https://mastodon.social/@a/103254962155278888":                                       "100%  mastodon.*2019-12-05T11:34:47",
		"https://example.com/orders/1541815603606036480":                                      "one of .*discord .*twitter",
	} {
		out := succeed(t, "identify", url)
		assert.Regexp(t, `(?s)^`+want, out, url)
		assert.Equal(t, strings.HasPrefix(want, "one"), strings.Contains(out, "only the epoch"), url)
	}
	out, _, status := runInput(strings.NewReader("https://x.com/a/status/1541815603606036480\nhttps://x.com/b/status/660116384035299332\n"), "identify", "-")
	assert.Zero(t, status)
	assert.Regexp(t, "^100%  twitter", out)
	_, errs, _ := runCLI("identify", "https://x.com/about")
	assert.Contains(t, errs, "x.com/about")
}

func TestIdentifySaysIfNoLayoutFits(t *testing.T) {
	assert.Contains(t, succeed(t, "identify", "9223372036854775807"), "no known layout: another layout")
}

func TestIdentifyRefusesInput(t *testing.T) {
	for args, names := range map[string]string{
		"identify":                            "takes IDs",
		"identify - 5":                        "by itself",
		"identify x-y":                        `"x-y"`,
		"identify 5 -5":                       "-5",
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
	id := newID(t, layouts.Bwmarrin()).String()
	out, errs, status := runCLI("decode", id)
	assert.Equal(t, exitOK, status)
	assert.True(t, strings.HasPrefix(out, id+" time=20"))
	requireOneLine(t, errs)
	assert.Contains(t, errs, "the time of "+id+" lies in the future")
	assert.Regexp(t, `most likely twitter \(\d\d%\) or bwmarrin \(\d\d%\);`, errs)
	_, errs, _ = runCLI("decode", "--layout", "bwmarrin", id)
	assert.Empty(t, errs)
}

func TestDecodeLines(t *testing.T) {
	in := "291\n\n  \"582\",\r\n0x7\n291\n12\x00\n9223372036854775808\n" + strings.Repeat("9", 1<<20) + "\n291"
	out, errs, status := runInput(strings.NewReader(in), "decode", "--lines", "--layout", "8/4/4")
	assert.Equal(t, exitFailure, status)
	const is = "291 time=2026-01-01T00:00:00.001Z worker=2 sequence=3\n"
	assert.Equal(t, is+"582 time=2026-01-01T00:00:00.002Z worker=4 sequence=6\n"+is+is, out)
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
	_, errs, status = runCLI("decode", "--lines", "5")
	assert.Equal(t, exitUsage, status)
	assert.Contains(t, errs, `"5"`)
}

// Every command has --json, and what it prints then is JSON.
func TestJSON(t *testing.T) {
	dir := t.TempDir()
	id := strings.TrimSpace(succeed(t, "new", "--dir", dir))
	for args, want := range map[string]string{
		"new -n 2":                       `"worker":0`,
		"decode " + id:                   `{"id":"` + id + `","form":"decimal","layout":"time=41 worker=10 sequence=12 unit=1ms epoch=2026-01-01T00:00:00.000Z","parts":{"time":"`,
		"identify " + id:                 `"form":"decimal","name":"default"`,
		"range 2026-01-01 2026-01-02":    `{"hi":"362387865600000","lo":"0"}`,
		"layout":                         `"name":"sonyflake"`,
		"layout sonyflake":               `"epoch":1409529600000,"unit":10000000,"timeBits":39,`,
		"layout 41/10/12":                `"expires":"2095-09-07T15:47:35.552Z"`,
		"worker --dir " + dir:            `"state":"free"`,
		"whois --dir " + dir + " " + id:  `{"id":"` + id + `","holder":{"worker":`,
		"decode --layout sonyflake 9999": `"worker":9999`,
	} {
		out := succeed(t, append(strings.Fields(args), "--json")...)
		assert.Contains(t, out, want, args)
		assert.NotRegexp(t, `"[A-Z]\w*":`, out, "%s has a field's name in Go", args)
		for _, line := range lines(out) {
			assert.True(t, json.Valid([]byte(line)), line)
		}
	}
	out, _, status := runInput(strings.NewReader("a "+id+" b "+id+"\n7"), "decode", "-", "--json")
	assert.Zero(t, status)
	assert.Equal(t, strings.Repeat(succeed(t, "decode", "--json", id), 2), out)
}
