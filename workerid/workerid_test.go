package workerid

import (
	"fmt"
	"math"
	"math/big"
	"os"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
)

// bits returns a layout with n worker bits, up to 31.
func bits(n uint8) snowflake.Layout {
	return snowflake.Layout{Unit: 1, TimeBits: 32, WorkerBits: n}
}

// requireNone checks that a result is not a worker ID, and that the error contains each of says.
func requireNone(t *testing.T, worker int, err error, says ...string) {
	t.Helper()
	require.ErrorIs(t, err, ErrNoWorkerID)
	require.NotErrorIs(t, err, snowflake.ErrWorkerRange)
	requireError(t, worker, err, says...)
}

func requireError(t *testing.T, worker int, err error, says ...string) {
	t.Helper()
	require.Zero(t, worker)
	require.Equal(t, 1, strings.Count(err.Error(), "workerid: "), err)
	for _, text := range says {
		require.ErrorContains(t, err, text)
	}
}

// requireNumber compares a result with math/big: if the number fits n bits, it is the worker ID.
func requireNumber(t *testing.T, number *big.Int, n uint8, worker int, err error, says ...string) {
	t.Helper()
	if number.BitLen() <= int(n) {
		require.NoError(t, err)
		require.Equal(t, number.Int64(), int64(worker))
		return
	}
	want := snowflake.FieldRangeError{Field: "worker", Value: math.MaxInt, Max: 1<<n - 1}
	if number.Cmp(big.NewInt(math.MaxInt)) < 0 {
		want.Value = int(number.Int64())
	}
	e := (*snowflake.FieldRangeError)(nil)
	require.ErrorAs(t, err, &e)
	require.Equal(t, want, *e)
	requireError(t, worker, err, says...)
}

// decimal and podName are the two grammars, as regular expressions.
var (
	decimal = regexp.MustCompile(`\A()(0|[1-9][0-9]*)\z`)
	podName = regexp.MustCompile(`(?s)\A([^.]*[^.-]-)(0|[1-9][0-9]*)(?:\..*)?\z`)
)

// requireParsed compares a result with a grammar.
func requireParsed(t *testing.T, grammar *regexp.Regexp, text string, n uint8, worker int, err error, says ...string) {
	t.Helper()
	m := grammar.FindStringSubmatch(text)
	if m == nil {
		requireNone(t, worker, err, append(says, fmt.Sprintf("%q", text))...)
		return
	}
	number, _ := new(big.Int).SetString(m[2], 10)
	requireNumber(t, number, n, worker, err, append(says, m[2])...)
}

func FuzzFromEnv(f *testing.F) {
	for _, text := range []string{"0", "7", "10", "1023", "1024", "2147483648", "9223372036854775808",
		"99999999999999999999999999999999999999",
		"", "-1", "-0", "+7", " 7", "7\n", "00", "07", "007", "0x7", "1_0", "7.0", "1e1", "７", "web", "7\xff"} {
		f.Add(text, uint8(10))
		f.Add(text, uint8(31))
		f.Add(text, uint8(0))
	}
	f.Fuzz(func(t *testing.T, text string, n uint8) {
		if strings.ContainsRune(text, 0) || runtime.GOOS == "windows" && !utf8.ValidString(text) {
			t.Skip("no environment can hold it")
		}
		const name = "SNOWFLAKE_TEST_WORKER"
		n %= 32
		t.Setenv(name, text)
		worker, err := FromEnv(name, bits(n))
		requireParsed(t, decimal, text, n, worker, err, name)
		require.NoError(t, os.Unsetenv(name))
		worker, err = FromEnv(name, bits(n))
		requireNone(t, worker, err, name, "not set")
	})
}

func FuzzFromPodName(f *testing.F) {
	for _, name := range []string{"web-0", "web-7", "web-1023", "w-7", "7-7", "my-web-2-7", "web-7.",
		"web-7.web-8.x", "web-7.web.default.svc.cluster.local",
		"web-1024", "web-99999999999999999999.web", "", "web", "web7", "7", "-7", "web-", "web--7", "web-07",
		"web-00", "web-+7", "web-7 ", "web-7a", "web_7",
		"web.default-7", ".web-7", "web-7d9f8b6c5-2xkqz", "web-7-x.default.svc", "web-７", "a\nb-3.\n"} {
		f.Add(name, uint8(10))
		f.Add(name, uint8(3))
	}
	f.Fuzz(func(t *testing.T, name string, n uint8) {
		n %= 32
		worker, err := FromPodName(name, bits(n))
		requireParsed(t, podName, name, n, worker, err)
	})
}

func TestFromHostnameIsThePodNameOfTheHost(t *testing.T) {
	name, err := os.Hostname()
	require.NoError(t, err)
	want, wantErr := FromPodName(name, bits(10))
	got, err := FromHostname(bits(10))
	assert.Equal(t, want, got)
	assert.Equal(t, wantErr, err)
}

func TestInvalidLayout(t *testing.T) {
	t.Setenv("SNOWFLAKE_TEST_WORKER", "0")
	refused := func(worker int, err error) {
		assert.Zero(t, worker)
		assert.ErrorIs(t, err, snowflake.ErrInvalidLayout)
	}
	for _, l := range []snowflake.Layout{{}, bits(64), bits(255)} {
		refused(FromEnv("SNOWFLAKE_TEST_WORKER", l))
		refused(FromPodName("web-0", l))
		refused(FromIP(prefix("10.0.0.7/24"), l))
	}
}
