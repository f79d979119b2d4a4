package workerid

import (
	"math"
	"math/big"
	"os"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
)

// bits returns a layout with n worker bits.
func bits(n uint8) snowflake.Layout {
	return snowflake.Layout{Unit: time.Millisecond, TimeBits: 40, WorkerBits: n}
}

// outcome is what a function of this package is to return: a worker ID, or an
// error that matches is and whose text has each of names.
type outcome struct {
	worker int
	is     error
	names  []string
}

func found(worker int) outcome { return outcome{worker: worker} }

// none returns the outcome of an error that matches ErrNoWorkerID.
func none(names ...string) outcome { return outcome{is: ErrNoWorkerID, names: names} }

// tooWide is an error for a value over the layout's most.
func tooWide(names ...string) outcome { return outcome{is: snowflake.ErrWorkerRange, names: names} }

func (want outcome) check(t *testing.T, worker int, err error) {
	t.Helper()
	assert.Equal(t, want.worker, worker)
	if want.is == nil {
		assert.NoError(t, err)
		return
	}
	require.ErrorIs(t, err, want.is)
	for _, name := range want.names {
		assert.ErrorContains(t, err, name)
	}
	assert.Equal(t, 1, strings.Count(err.Error(), "workerid: "), err)
}

func TestFromEnv(t *testing.T) {
	const name = "SNOWFLAKE_TEST_WORKER"
	refused := func(text string) outcome { return none(name, text) }
	cases := map[string]outcome{
		"0":    found(0),
		"7":    found(7),
		"10":   found(10),
		"1023": found(1023),

		"1024":                                   tooWide(name, "worker 1024", "0 to 1023"),
		"9223372036854775808":                    tooWide(name, "9223372036854775808", "0 to 1023"),
		"99999999999999999999999999999999999999": tooWide(name, "99999999999999999999999999999999999999", "0 to 1023"),

		"":    refused(`""`),
		"-1":  refused(`"-1"`),
		"-0":  refused(`"-0"`),
		"+7":  refused(`"+7"`),
		" 7":  refused(`" 7"`),
		"7\n": refused(`"7\n"`),
		"00":  refused(`"00"`),
		"07":  refused(`"07"`),
		"0x7": refused(`"0x7"`),
		"1_0": refused(`"1_0"`),
		"7.0": refused(`"7.0"`),
		"1e1": refused(`"1e1"`),
		"７":   refused(`"７"`),
		"web": refused(`"web"`),
	}
	if runtime.GOOS != "windows" { // its environment is UTF-16, which cannot hold this text
		cases["7\xff"] = refused(`"7\xff"`)
	}
	for text, want := range cases {
		t.Run(text, func(t *testing.T) {
			t.Setenv(name, text)
			worker, err := FromEnv(name, bits(10))
			want.check(t, worker, err)
		})
	}

	t.Run("not set", func(t *testing.T) {
		t.Setenv(name, "") // so that it is restored
		require.NoError(t, os.Unsetenv(name))
		worker, err := FromEnv(name, bits(10))
		none(name, "not set").check(t, worker, err)
	})
}

func TestFromPodName(t *testing.T) {
	for name, want := range map[string]outcome{
		"web-0":                               found(0),
		"web-7":                               found(7),
		"web-1023":                            found(1023),
		"w-7":                                 found(7),
		"7-7":                                 found(7),
		"my-web-2-7":                          found(7),
		"web-7.":                              found(7),
		"web-7.web-8.x":                       found(7),
		"web-7.web.default.svc.cluster.local": found(7),

		"web-1024":                     tooWide(`"web-1024"`, "worker 1024", "0 to 1023"),
		"web-99999999999999999999.web": tooWide(`"web-99999999999999999999.web"`, "0 to 1023"),

		"":                    none(`""`),
		"web":                 none(`"web"`),
		"web7":                none(`"web7"`),
		"7":                   none(`"7"`),
		"-7":                  none(`"-7"`),
		"web-":                none(`"web-"`),
		"web--7":              none(`"web--7"`),
		"web-07":              none(`"web-07"`),
		"web-00":              none(`"web-00"`),
		"web-+7":              none(`"web-+7"`),
		"web-7 ":              none(`"web-7 "`),
		"web-7a":              none(`"web-7a"`),
		"web_7":               none(`"web_7"`),
		"web.default-7":       none(`"web.default-7"`),
		".web-7":              none(`".web-7"`),
		"web-7d9f8b6c5-2xkqz": none(`"web-7d9f8b6c5-2xkqz"`),
		"web-7-x.default.svc": none(`"web-7-x.default.svc"`),
		"web-７":               none(`"web-７"`),
	} {
		t.Run(name, func(t *testing.T) {
			worker, err := FromPodName(name, bits(10))
			want.check(t, worker, err)
		})
	}
}

func TestFromHostnameIsThePodNameOfTheHost(t *testing.T) {
	name, err := os.Hostname()
	require.NoError(t, err)
	want, wantErr := FromPodName(name, bits(10))
	got, err := FromHostname(bits(10))
	assert.Equal(t, want, got)
	assert.Equal(t, wantErr, err)
	if err != nil {
		assert.ErrorContains(t, err, name)
	}
}

func TestWorkerIDsThatDoNotFitReturnFieldRangeError(t *testing.T) {
	for _, test := range []struct {
		name string
		l    snowflake.Layout
		want snowflake.FieldRangeError
	}{
		{"web-8", bits(3), snowflake.FieldRangeError{Field: "worker", Value: 8, Max: 7}},
		{"web-1", bits(0), snowflake.FieldRangeError{Field: "worker", Value: 1, Max: 0}},
		// On a 32-bit system the largest int would fit this one.
		{"web-9223372036854775808", snowflake.Layout{Unit: 1, TimeBits: 32, WorkerBits: 31},
			snowflake.FieldRangeError{Field: "worker", Value: math.MaxInt, Max: math.MaxInt32}},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := FromPodName(test.name, test.l)
			var e *snowflake.FieldRangeError
			require.ErrorAs(t, err, &e)
			assert.Equal(t, test.want, *e)
		})
	}
}

func TestInvalidLayout(t *testing.T) {
	for name, find := range map[string]func(snowflake.Layout) (int, error){
		"FromEnv": func(l snowflake.Layout) (int, error) {
			t.Setenv("SNOWFLAKE_TEST_WORKER", "0")
			return FromEnv("SNOWFLAKE_TEST_WORKER", l)
		},
		"FromPodName": func(l snowflake.Layout) (int, error) { return FromPodName("web-0", l) },
		"FromIP":      func(l snowflake.Layout) (int, error) { return FromIP(prefix("10.0.0.7/24"), l) },
	} {
		t.Run(name, func(t *testing.T) {
			for _, l := range []snowflake.Layout{{}, bits(64), bits(255)} {
				worker, err := find(l)
				assert.Zero(t, worker)
				assert.ErrorIs(t, err, snowflake.ErrInvalidLayout)
			}
		})
	}
}

// canonical and podName are the two grammars, as regular expressions.
var (
	canonical = regexp.MustCompile(`\A(?:0|[1-9][0-9]*)\z`)
	podName   = regexp.MustCompile(`(?s)\A[^.]*[^.-]-(0|[1-9][0-9]*)(?:\..*)?\z`)
)

// requireNumber compares a result with arithmetic without bounds. digits is "" if
// there is no number.
func requireNumber(t *testing.T, digits string, n uint8, worker int, err error) {
	value, most := new(big.Int), new(big.Int).Lsh(big.NewInt(1), uint(n))
	value.SetString(digits, 10)
	switch {
	case digits == "":
		require.ErrorIs(t, err, ErrNoWorkerID)
		require.NotErrorIs(t, err, snowflake.ErrWorkerRange)
		require.Zero(t, worker)
	case value.Cmp(most) >= 0:
		require.ErrorIs(t, err, snowflake.ErrWorkerRange)
		require.Zero(t, worker)
	default:
		require.NoError(t, err)
		require.Equal(t, value.String(), big.NewInt(int64(worker)).String())
	}
}

func FuzzFromEnv(f *testing.F) {
	for _, text := range []string{"", "0", "7", "007", "1023", "1024", "-1", "+1", " 1", "1_000", "9223372036854775808"} {
		f.Add(text, uint8(10))
	}
	f.Fuzz(func(t *testing.T, text string, n uint8) {
		if strings.ContainsRune(text, 0) {
			t.Skip("no environment can hold it")
		}
		n %= 23
		t.Setenv("SNOWFLAKE_TEST_WORKER", text)
		worker, err := FromEnv("SNOWFLAKE_TEST_WORKER", bits(n))
		requireNumber(t, canonical.FindString(text), n, worker, err)
	})
}

func FuzzFromPodName(f *testing.F) {
	for _, name := range []string{"", "web", "web-7", "web-07", "web--7", "-7", "web-7.web-8", "a\nb-3.\n", "web-1024", "web-9223372036854775808"} {
		f.Add(name, uint8(10))
	}
	f.Fuzz(func(t *testing.T, name string, n uint8) {
		n %= 23
		worker, err := FromPodName(name, bits(n))
		var digits string
		if m := podName.FindStringSubmatch(name); m != nil {
			digits = m[1]
		}
		requireNumber(t, digits, n, worker, err)
	})
}
