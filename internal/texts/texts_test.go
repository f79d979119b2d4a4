package texts

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/layouts"
	"github.com/seed-5394e6b1/snowflake/opaque"
	"github.com/seed-5394e6b1/snowflake/typed"
)

func TestIDs(t *testing.T) {
	const id = snowflake.ID(1541815603606036480)
	forms := func(texts ...string) (forms []string) {
		all, err := IDs(texts)
		require.NoError(t, err)
		var read []snowflake.ID
		for _, r := range all {
			forms = append(forms, r.Form)
			read = append(read, r.IDs[0])
		}
		assert.Contains(t, read, id)
		return forms
	}
	assert.Equal(t, []string{"decimal"}, forms(id.String()))
	// These are also base 58, base 62 or hexadecimal.
	for _, digits := range []string{"12345678911", "1234567890123456", "5"} {
		all, err := IDs([]string{digits})
		require.NoError(t, err)
		require.Len(t, all, 1)
		assert.Equal(t, "decimal", all[0].Form)
	}
	assert.Equal(t, []string{"base 32"}, forms(id.Base32()))
	assert.Contains(t, forms(id.Base62()), "base 62")
	assert.Contains(t, forms(id.Base58()), "base 58")
	assert.Equal(t, []string{"base 62"}, forms(id.Base62(), snowflake.ID(0).Base62()))

	// The AT Protocol's specification has the first as an example, and the zero.
	all, err := IDs([]string{"3jzfcijpj2z2a", "2222222222222"})
	require.NoError(t, err)
	require.Len(t, all, 1)
	assert.Equal(t, snowflake.ID(0), all[0].IDs[1])
	tids, _ := layouts.ByName("atproto-tid")
	assert.Equal(t, tids.Form, all[0].Form)
}

// Programs print numbers in these forms.
func TestBare(t *testing.T) {
	const digits = "117469438034313216"
	for _, s := range []string{digits, " \t" + digits + "\r", `"` + digits + `"`, "'" + digits + "'", "`" + digits + "`",
		"\ufeff" + digits, `="` + digits + `"`, digits + "L", digits + "n", `Long("` + digits + `")`, "Long('" + digits + "')",
		`NumberLong("` + digits + `")`, "NumberLong(" + digits + ")", `new Long("` + digits + `")`, `Long.fromString("` + digits + `")`,
		"Int64(" + digits + ")", "BigInt(" + digits + ")", "Decimal('" + digits + "')", "NumberDecimal(\"" + digits + "\")",
		`{"$numberLong":"` + digits + `"}`, `{ "$numberLong" : "` + digits + `" }`, `{'$numberLong': '` + digits + `'}`,
		"117,469,438,034,313,216", "117.469.438.034.313.216", "117 469 438 034 313 216", "117\u202f469\u202f438\u202f034\u202f313\u202f216",
		"117_469_438_034_313_216", "117'469'438'034'313'216", "117’469’438’034’313’216",
	} {
		assert.Equal(t, digits, Bare(s), s)
		all, err := IDs([]string{s})
		require.NoError(t, err, s)
		assert.Equal(t, digits, all[0].IDs[0].String(), s)
	}
	for _, s := range []string{"", "order_038ANTKF00000", "0x1a", "Long", "Long(x)", "Wrong(5)", "x5n", `{"$oid":"5"}`, "192.168.100.200",
		"117,469.438,034", "117,46", "1,2,3", "117 469 438", "Long(5) and Long(6)", "=5"} {
		assert.Equal(t, s, Bare(s))
	}
	assert.Equal(t, "[1, 2,3] 4", BareAll(`[Long("1"), NumberLong(2),{"$numberLong": "3"}] 4`))
}

func TestXID(t *testing.T) {
	for _, s := range []string{"192.168.1.5:8091:4269746926734658025", "seata-0.svc:8091:4269746926734658025", "[::1]:8091:4269746926734658025"} {
		all, err := IDs([]string{s})
		require.NoError(t, err)
		assert.Equal(t, SeataXID, all[0].Form)
		assert.EqualValues(t, 4269746926734658025, all[0].IDs[0])
	}
	for _, s := range []string{"2026-11-29 12:30:45", "2026-11-29T12:30:45", "12:30:45", "10.0.0.1:8091:45", "at 10.0.0.1:8091:4269746926734658025"} {
		_, err := IDs([]string{s})
		assert.ErrorIs(t, err, snowflake.ErrInvalidID, s)
	}
}

func TestIDsRefuses(t *testing.T) {
	for text, says := range map[string]string{
		"":                                     "empty",
		"12x ":                                 `"12x"`,
		"c30cf2a3b4d5":                         "may be 214460377838805 in hexadecimal: write 0x before it",
		`{"id":117469438034313216,"level":5}`:  "has more than an ID: snowflake decode - finds the IDs of a log",
		"order 117469438034313216 shipped":     "has more than an ID: snowflake decode - finds the IDs of a log",
		"9223372036854775808":                  "over 9223372036854775807",
		"99999999999999999999":                 "over 9223372036854775807",
		"018f6b1e-5c3b-7c8e-9d2a-0123456789ab": "a UUID, version 7",
		"01ARZ3NDEKTSV4RRFFQ69G5FAV":           "a ULID",
		"brpk4q72xwf2m63l":                     "muyo/sno",
		"507f1f77bcf86cd799439011":             "ObjectID",
		"9m4e2mr0ui3e8a215n4g":                 "rs/xid",
		"zzzzzzzzzzzzz":                        "zzzzzzzzzzzzz",
	} {
		_, err := IDs([]string{text})
		assert.ErrorContains(t, err, says, text)
	}
	_, err := IDs([]string{"123", "5", "x-y", "y-z"})
	assert.ErrorContains(t, err, "x-y")
}

// 11 characters in base 58 are 11 in base 62, too. If there are many, the digits that base 58 lacks
// decide.
func TestBase58IsToldFromBase62(t *testing.T) {
	const july2015, june2022 = snowflake.ID(618463286477602816), snowflake.ID(1541815603606036480)
	for _, first := range []snowflake.ID{july2015, june2022, 5_000_000_000_000_000_000} {
		for step := range 4 {
			var in58, in62 []string
			for i := range snowflake.ID(60) {
				id := first + i*(1+snowflake.ID(step)*12_345_678_901) // of a burst, or of an hour
				in58, in62 = append(in58, id.Base58()), append(in62, id.Base62())
			}
			for _, list := range [][]string{in58, append(in58, "id", "-5")} {
				form, parse := Reader(list)
				require.Equal(t, "base 58", form)
				id, err := parse(list[0])
				require.NoError(t, err)
				require.Equal(t, first, id)
			}
			form, _ := Reader(in62)
			require.Equal(t, "base 62", form)
		}
	}
	form, _ := Reader([]string{june2022.Base58(), (june2022 + 1).Base58()})
	assert.Equal(t, "base 62", form, "two may lack the digits by chance")
}

// A few strangers do not decide the form of the others.
func TestIDsOfTheMajority(t *testing.T) {
	const id = snowflake.ID(1541815603606036480)
	for _, write := range []func(snowflake.ID) string{snowflake.ID.String, snowflake.ID.Base32, snowflake.ID.Base58, snowflake.ID.Base62} {
		list := []string{"id"}
		for i := range snowflake.ID(20) {
			list = append(list, write(id+i))
		}
		all, err := IDs(append(list, "-5", "1.2E+17"))
		require.NoError(t, err)
		at := slices.IndexFunc(all, func(r Reading) bool { return slices.Contains(r.IDs, id) })
		require.GreaterOrEqual(t, at, 0)
		n := len(all[at].Skipped)
		require.Equal(t, 23, len(all[at].IDs)+n)
		assert.GreaterOrEqual(t, n, 2)
		assert.Equal(t, 22, all[at].Skipped[n-1].At)
		assert.Contains(t, all[at].Skipped[n-1].Why, "a floating-point number of 2 digits")
		assert.Contains(t, all[at].Skipped[n-2].Why, "-5 is negative")

		form, parse := Reader(list)
		assert.Equal(t, all[0].Form, form)
		got, err := parse(list[1])
		require.NoError(t, err)
		assert.Equal(t, all[0].IDs[len(all[0].IDs)-20], got)
		_, err = parse("-5")
		assert.ErrorContains(t, err, "negative")
	}
	form, _ := Reader([]string{"what", "is", "this?"})
	assert.Equal(t, "decimal", form)
}

// Each form that the library writes is read, and so are the usual forms of other programs.
func TestIDsInOtherForms(t *testing.T) {
	const id = snowflake.ID(117469438034313216)
	for text, form := range map[string]string{
		strings.TrimLeft(id.Base32(), "0"):          "base 32, without leading zeros",
		strings.TrimLeft(id.Base62(), "0"):          "base 62, without leading zeros",
		fmt.Sprintf("%#x", int64(id)):               "hexadecimal",
		fmt.Sprintf("0X%X", int64(id)):              "hexadecimal",
		fmt.Sprintf("%016x", int64(id)):             "hexadecimal",
		typed.Any{Prefix: "order", ID: id}.String(): "typed",
	} {
		all, err := IDs([]string{text})
		require.NoError(t, err)
		at := slices.IndexFunc(all, func(r Reading) bool { return r.Form == form })
		require.GreaterOrEqual(t, at, 0, "%s: %v", text, all)
		assert.Equal(t, []snowflake.ID{id}, all[at].IDs, text)
	}
	for _, text := range []string{"0x", "0x8000000000000000", "a bc", "order_038ANTKF0000o", "0-x", "id?"} {
		_, err := IDs([]string{text})
		assert.ErrorIs(t, err, snowflake.ErrInvalidID, text)
	}
	codec, err := opaque.New([]byte("12345678901234567890123456789012"), "order")
	require.NoError(t, err)
	prefixed, err := codec.WithPrefix("order")
	require.NoError(t, err)
	for _, text := range []string{codec.Encode(id), codec.EncodeBase32(id), prefixed.Encode(id), prefixed.EncodeBase32(id)} {
		_, err := IDs([]string{text})
		assert.ErrorContains(t, err, "may be an opaque text: use snowflake decode --key-file")
	}
}

func TestLayout(t *testing.T) {
	for text, want := range map[string]string{
		"hutool":                             layouts.Twitter().String(),
		"8/4/4":                              "8/4/4@2026-01-01,1ms",
		"8/2/4/2":                            "8/2/4/2@2026-01-01,1ms",
		"7/2/3/4/5":                          "7/2/3/4/5@2026-01-01,1ms",
		"sonyflake@5":                        "39/16/8@1970-01-01T00:00:00.005Z,10ms,worker-last",
		"8/4/4@2020-02-03T04:05:06.007Z,10s": "8/4/4@2020-02-03T04:05:06.007Z,10s",
		"8/4/5@0,1ms,worker-last":            "8/4/5@1970-01-01,1ms,worker-last",
		"8/4/5@300000000000000":              "8/4/5@300000000000000,1ms",
	} {
		l, err := Layout(text)
		require.NoError(t, err, text)
		assert.Equal(t, want, l.String(), text)
		again, err := Layout(l.String())
		require.NoError(t, err, text)
		assert.Equal(t, l, again, text)
	}
	for text, says := range map[string]string{
		"twiter": `unknown layout "twiter"`, "41/10": "2 fields", "1/1/1/1/1/1": "6 fields", "41//12": `""`, "41/256/12": `"256"`, "41/11/12": "64 bits",
		"twitter@": `""`, "twitter@x": `"x"`, "twitter@2026-13-01": `"2026-13-01"`, "8/4/4@0,": `""`, "8/4/4@0,5": `"5"`, "8/4/4@0,-1s": "unit -1s",
		"8/4/4@0,1s,last": `"last"`, "8/4/4@0,1s,worker-last,": `"worker-last,"`,
		// An epoch of 2026 milliseconds is most likely a year, and cannot be changed later.
		"8/4/4@2026": "2026-01-01", "8/4/4@9999": "9999-01-01", "8/4/4@2026-01-01T00:00:00.0001Z": "whole number of milliseconds",
	} {
		_, err := Layout(text)
		assert.ErrorContains(t, err, says, text)
	}
	for _, text := range []string{
		"2026-01-31T15:04:00", "2026-01-31 15:04:00", "2026-01-31T15:04", "2026-01-31 15:04", "2026-01-31T15:04Z",
		"2026-01-31T16:04+01:00",
	} {
		got, err := Time(text)
		require.NoError(t, err)
		assert.True(t, got.Equal(time.Date(2026, 1, 31, 15, 4, 0, 0, time.UTC)), "%s is %s", text, got)
	}
	for text, want := range map[string]snowflake.Epoch{"0": 0, "999": 999, "10000": 10000, "-5": -5, "2026-01-01": snowflake.DefaultEpoch} {
		got, err := Epoch(text)
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
}

// The greatest number of a URL's path that is an ID is the ID: others are small, or name what the
// ID is a part of.
func TestIDsOfURLs(t *testing.T) {
	for text, want := range map[string]snowflake.ID{
		"https://x.com/a/status/1541815603606036480/photo/1":                           1541815603606036480,
		"HTTPS://example.com:8080/7/117469438034341930?id=9":                           117469438034341930,
		"https://www.instagram.com/p/BsOGulcndj-/":                                     1949525278281554174,
		"https://bsky.app/profile/a/post/3jzfcijpj2z2a":                                1728652679052295174,
		"at://did:plc:z72i7hdynmk6r22z27h6tvur/app.bsky.feed.post/3jzfcijpj2z2a":       1728652679052295174,
		"urn:li:activity:6857290678196686848":                                          6857290678196686848,
		"urn:li:fsd_comment:(6857290678196686849,urn:li:activity:6857290678196686848)": 6857290678196686849,
		"https://www.linkedin.com/feed/update/urn:li:share:6857290678196686848/":       6857290678196686848,
		"https://www.linkedin.com/posts/a-b_words-activity-6857290678196686848-x1Yz":   6857290678196686848,
		"https://www.tiktok.com/@a/video/6718335390845095173?lang=en":                  6718335390845095173,
		"https://weibo.com/1642634100/Is0XboARR":                                       4466768535861595,
		"https://m.weibo.cn/status/4466768535861595":                                   4466768535861595,
	} {
		all, err := IDs([]string{text})
		require.NoError(t, err, text)
		require.Len(t, all, 1, text)
		assert.Equal(t, "URL", all[0].Form)
		assert.Equal(t, []snowflake.ID{want}, all[0].IDs, text)
	}
	for _, text := range []string{"https://x.com/about", "https://x.com/", "x.com/1541815603606036480",
		"https://www.instagram.com/p/zzzzzzzzzzz/",
		"https://www.instagram.com/p/BsOGulcndj/", "https://x.com/9223372036854775808", "https://%zz/5"} {
		_, err := IDs([]string{text})
		assert.ErrorIs(t, err, snowflake.ErrInvalidID, text)
		assert.Equal(t, strings.Contains(text, "://"), strings.Contains(err.Error(), "is not a URL with an ID"), err)
	}
	for text, want := range map[string]string{"urn:li:share:5": "urn:li", "at://did:plc:a/b/3jzfcijpj2z2a": "at://"} {
		all, err := IDs([]string{text})
		require.NoError(t, err)
		assert.Equal(t, want, all[0].Host)
	}
	all, err := IDs([]string{"https://x.com/5", "https://x.com/6"})
	require.NoError(t, err)
	assert.Equal(t, "x.com", all[0].Host)
	all, err = IDs([]string{"https://x.com/5", "https://example.com/6"})
	require.NoError(t, err)
	assert.Empty(t, all[0].Host)
}
