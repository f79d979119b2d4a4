//go:build go1.25

package opaque

import (
	"bytes"
	"crypto/aes"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
)

// This file is longer than the code, because texts are stored for ever: it compares them with a
// slow reference and fixed texts, and tries every wrong character.

var counting, a5 = make([]byte, KeySize), bytes.Repeat([]byte{0xa5}, KeySize)

func init() {
	for i := range counting {
		counting[i] = byte(i)
	}
}

// The texts were made by another program, with the HKDF and AES of Node.js (which are OpenSSL's),
// and its BigInt for the digits.
var vectors = []struct {
	key     []byte
	purpose string
	id      snowflake.ID
	base62  string
	base32  string
}{
	{counting, "order", 0, "76EPqWkB2VSqYRHGnP95Ol", "799m4bvghc6fs5pag3jenxkddv"},
	{counting, "order", 1, "1yOzmX0kVQCdRcKFtV8y6H", "20vr9aamwb9tva2sfrwjar10r5"},
	{counting, "order", 1541815603606036480, "27q2bCF4P8K05YRZwLP9a4", "25vs0se6s7qk47tgqnwfq1n9v8"},
	{counting, "order", 9223372036854775807, "2SHKRyv0dphYK35T1uqw6c", "2gpd7b0s6pxqrqzxzdvtffeyg2"},
	{counting, "user", 0, "4f5jGYG40ShtCp18Qfqhqz", "4s6h76y4yadq9q73ywwcxpyf5h"},
	{counting, "user", 1541815603606036480, "1XV9RfkXhMRLyIZ2NdfWbZ", "1jkj497c5f8pzz2nweth3tmjz1"},
	{counting, "注文", 1541815603606036480, "6SntwT5IPiEWtpCoiYIw5v", "6md007mq14gmnev82pycrranf7"},
	{a5, "order", 1, "1WylAW9mznAd5R7KMCIaFs", "1japkty6vy66rp6873mm4k1jjr"},
	{a5, "order", 1541815603606036480, "0RkVKzTBwkcW2OKDJ3LaPR", "0epk2rr0t3ygnrpe5vq75ftw11"},
	{a5, "user", 9223372036854775807, "6EvTAxHU7InWyK4vS9WTqW", "6d1mwq29zz1cvwt3wvfnpcmx3w"},
	{a5, "注文", 9223372036854775807, "0oHHerDdzWICpuqj1uCDK1", "0tmmp51gsrmxmg4z48e2vyknjd"},
}

func must(t testing.TB, key []byte, purpose string, older ...[]byte) *Codec {
	t.Helper()
	c, err := New(key, purpose, older...)
	require.NoError(t, err)
	return c
}

func requireRefused(t testing.TB, c *Codec, text string) {
	t.Helper()
	id, err := c.Decode(text)
	require.ErrorIs(t, err, snowflake.ErrInvalidID, "%q", text)
	require.Zero(t, id)
}

func randomIDs(n int) []snowflake.ID {
	rng := rand.New(rand.NewPCG(1, 2))
	ids := []snowflake.ID{0, 1, 1<<53 - 1, math.MaxInt64}
	for range n {
		ids = append(ids, snowflake.ID(rng.Int64()))
	}
	return ids
}

func TestKnownTexts(t *testing.T) {
	for _, v := range vectors {
		c := must(t, v.key, v.purpose)
		assert.Equal(t, v.base62, c.Encode(v.id))
		assert.Equal(t, v.base32, c.EncodeBase32(v.id))
		for _, text := range []string{v.base62, v.base32, strings.ToUpper(v.base32), strings.ToUpper(v.base32[:13]) + v.base32[13:]} {
			id, err := c.Decode(text)
			assert.NoError(t, err)
			assert.Equal(t, v.id, id)
		}
		requireRefused(t, c, strings.ToUpper(v.base62)) // in base 62, capitals differ
	}
}

// slow writes n with math/big, with a number of digits.
func slow(n number, digits string, width int) string {
	v := new(big.Int).SetUint64(n.hi)
	v.Lsh(v, 64).Or(v, new(big.Int).SetUint64(n.lo))
	base, digit := big.NewInt(int64(len(digits))), new(big.Int)
	text := make([]byte, width)
	for i := width - 1; i >= 0; i-- {
		v.DivMod(v, base, digit)
		text[i] = digits[digit.Int64()]
	}
	return string(text)
}

func TestTextsMatchTheSlowReference(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	numbers := []number{{}, {0, 1}, {1, 0}, {0, math.MaxUint64}, {math.MaxUint64, 0}, {math.MaxUint64, math.MaxUint64}}
	for range 2000 {
		shift := rng.IntN(64)
		numbers = append(numbers, number{rng.Uint64() >> shift, rng.Uint64()})
	}
	for _, n := range numbers {
		b62, b32 := n.base62(), n.base32()
		require.Equal(t, slow(n, digits62, len62), string(b62[:]))
		require.Equal(t, slow(n, digits32, len32), string(b32[:]))
		got, ok := parse62(string(b62[:]))
		require.True(t, ok)
		require.Equal(t, n, got)
		got, ok = parse32(string(b32[:]))
		require.True(t, ok)
		require.Equal(t, n, got)
	}
}

func TestNumbersOver128BitsAreRefused(t *testing.T) {
	for _, s := range []string{"7n42DGM5Tflk9n8mt7Fhc8", "7n42DGM5Tflk9n8mt7FhdA", "8000000000000000000000", "zzzzzzzzzzzzzzzzzzzzzz",
		"80000000000000000000000000", "zzzzzzzzzzzzzzzzzzzzzzzzzz", "G0000000000000000000000000"} {
		parse := parse62
		if len(s) == len32 {
			parse = parse32
		}
		_, ok := parse(s)
		assert.False(t, ok, s)
	}
}

// Each of the 65 bits counts: if Decode ignored one, a forgery would be twice as
// likely to pass.
func TestEachBitOfTheRedundancyIsChecked(t *testing.T) {
	c := must(t, a5, "order", counting)
	for _, key := range c.keys().texts {
		for bit := range 65 {
			n := number{lo: 7}
			if bit == 64 {
				n.lo |= 1 << 63
			} else {
				n.hi |= 1 << bit
			}
			var b [aes.BlockSize]byte
			n.put(&b)
			key.Encrypt(b[:], b[:])
			text := get(&b).base62()
			requireRefused(t, c, string(text[:]))
		}
	}
}

func TestTextWithOneOtherCharacterIsRefused(t *testing.T) {
	c := must(t, a5, "order", counting)
	for _, text := range []string{c.Encode(42), c.EncodeBase32(42)} {
		digits := digits62
		if len(text) == len32 {
			digits = digits32 + "ILOUilou" // Crockford's readers take some of these for digits
		}
		for i := range len(text) {
			for _, d := range digits + "-_ \n\x00\xff" {
				if other := text[:i] + string(d) + text[i+1:]; other != text {
					requireRefused(t, c, other)
				}
			}
		}
		for _, other := range []string{"", text[1:], text + "0", "0" + text, " " + text, text + "\n", strings.Repeat(text, 10)} {
			requireRefused(t, c, other)
		}
	}
}

func TestTextOfAnotherPurposeOrKeyIsRefused(t *testing.T) {
	order := must(t, a5, "order")
	for _, other := range []*Codec{must(t, a5, "orders"), must(t, a5, "user"), must(t, a5, "orde"), must(t, counting, "order")} {
		for _, id := range randomIDs(100) {
			requireRefused(t, other, order.Encode(id))
			requireRefused(t, other, order.EncodeBase32(id))
		}
	}
}

func TestKeysRotate(t *testing.T) {
	third := bytes.Repeat([]byte{3}, KeySize)
	before, after := must(t, a5, "order"), must(t, counting, "order", a5, third)
	assert.Equal(t, must(t, counting, "order").Encode(7), after.Encode(7), "the newest key encodes")
	for _, c := range []*Codec{before, after, must(t, third, "order")} {
		id, err := after.Decode(c.Encode(7))
		assert.NoError(t, err)
		assert.Equal(t, snowflake.ID(7), id)
	}
	requireRefused(t, before, after.Encode(7))

	// The same key twice, by mistake, does no harm.
	id, err := must(t, a5, "order", a5).Decode(before.Encode(7))
	assert.NoError(t, err)
	assert.Equal(t, snowflake.ID(7), id)
}

func TestNewRefuses(t *testing.T) {
	tests := []struct {
		name    string
		key     []byte
		purpose string
		older   [][]byte
		says    string
	}{
		{"no key", nil, "order", nil, "key 0 has 0 bytes; it must have 32"},
		{"a short key", a5[1:], "order", nil, "key 0 has 31 bytes; it must have 32"},
		{"a long key", append(bytes.Clone(a5), 1), "order", nil, "key 0 has 33 bytes; it must have 32"},
		{"a key that was never set", make([]byte, KeySize), "order", nil, "key 0 is all zeros"},
		{"a short older key", a5, "order", [][]byte{counting, a5[:16]}, "key 2 has 16 bytes; it must have 32"},
		{"no purpose", a5, "", nil, "the purpose is empty"},
		{"many keys", a5, "order", make([][]byte, MaxKeys), "17 keys; at most 16 are allowed"},
	}
	for _, tt := range tests {
		c, err := New(tt.key, tt.purpose, tt.older...)
		assert.Nil(t, c, tt.name)
		assert.ErrorIs(t, err, snowflake.ErrInvalidOptions, tt.name)
		assert.ErrorContains(t, err, tt.says, tt.name)
	}
	full := make([][]byte, MaxKeys-1)
	for i := range full {
		full[i] = bytes.Repeat([]byte{byte(i + 1)}, KeySize)
	}
	c := must(t, a5, "order", full...)
	id, err := c.Decode(must(t, full[MaxKeys-2], "order").Encode(9))
	assert.NoError(t, err)
	assert.Equal(t, snowflake.ID(9), id)
}

func TestNewCopiesItsArguments(t *testing.T) {
	key, old := bytes.Clone(a5), bytes.Clone(counting)
	c := must(t, key, "order", old)
	clear(key)
	clear(old)
	assert.Equal(t, must(t, a5, "order").Encode(7), c.Encode(7))
}

func TestErrorsDoNotShowTheText(t *testing.T) {
	c := must(t, a5, "order")
	for _, text := range []string{c.Encode(1)[1:], "!" + c.Encode(1)[1:], must(t, a5, "user").Encode(1)} {
		_, err := c.Decode(text)
		require.ErrorIs(t, err, snowflake.ErrInvalidID)
		assert.NotContains(t, err.Error(), text[1:])
	}
}

func TestCodecServesManyGoroutines(t *testing.T) {
	c := must(t, a5, "order", counting)
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			for i := range 500 {
				want := snowflake.ID(worker*1000 + i)
				if got, err := c.Decode(c.Encode(want)); err != nil || got != want {
					t.Errorf("%v came back as %v, %v", want, got, err)
				}
			}
		})
	}
	all.Wait()
}

// A prefix changes nothing but the start of each text.
func TestPrefix(t *testing.T) {
	plain := must(t, counting, "order")
	orders, err := plain.WithPrefix("order")
	require.NoError(t, err)
	for _, id := range append(randomIDs(1000), 0, 1541815603606036480) {
		text, small := "order_"+plain.Encode(id), "order_"+plain.EncodeBase32(id)
		require.Equal(t, text, orders.Encode(id))
		require.Equal(t, small, orders.EncodeBase32(id))
		for _, s := range []string{text, small, strings.ToUpper(small)} {
			got, err := orders.Decode(s)
			require.NoError(t, err, s)
			require.Equal(t, id, got)
		}
		for _, s := range []string{"Order_" + text[6:], "user__" + text[6:], "order-" + text[6:], "user_" + text[6:], text[6:], small[6:],
			text + "x", text[:27], "order_" + text, "ORDER_" + text[6:], "oſer_" + small[6:], "order", ""} {
			requireRefused(t, orders, s)
		}
		requireRefused(t, plain, text)
		requireRefused(t, plain, small)
	}
	_, err = orders.Decode("user_27q2bCF4P8K05YRZwLP9a4")
	assert.ErrorContains(t, err, "an opaque text here is order_ and 22 or 26 characters")
}

func TestWithPrefixRefuses(t *testing.T) {
	c := must(t, counting, "order")
	for prefix, why := range map[string]string{
		"": "is empty", "Order": "other than a-z", "order_": "ends with an underscore",
		"1st": "begin with a letter", strings.Repeat("x", 64): "at most 63",
	} {
		got, err := c.WithPrefix(prefix)
		assert.Nil(t, got)
		assert.ErrorIs(t, err, snowflake.ErrInvalidOptions)
		assert.ErrorContains(t, err, why)
	}
	long, err := c.WithPrefix(strings.Repeat("x", 63))
	require.NoError(t, err)
	_, err = long.Decode(long.Encode(7))
	require.NoError(t, err)
}

// Testify and other packages follow pointers, and call no method. The test looks for the first word
// of each key, in the two forms in which they print numbers: AES's schedule begins with it.
func TestKeysAreNeverPrinted(t *testing.T) {
	c, other := must(t, counting, "order", a5), must(t, a5, "order")
	var log recorder
	assert.Equal(&log, c, other)
	for _, v := range []any{c, *c, struct{ c *Codec }{c}} {
		fmt.Fprintf(&log, "%v %+v %#v %x %d\n", v, v, v, v, v)
	}
	require.Contains(t, log.String(), "Codec", "something was printed")
	for _, derived := range [][]byte{derivedKey(t, counting, infoText+"order"), derivedKey(t, a5, infoText+"order"),
		derivedKey(t, counting, infoInt+"order"), derivedKey(t, a5, infoInt+"order")} {
		for i := 0; i < KeySize; i += 4 {
			for _, word := range []uint32{binary.BigEndian.Uint32(derived[i:]), binary.LittleEndian.Uint32(derived[i:])} {
				for _, form := range []string{"%d", "%x", "%X"} {
					assert.NotContains(t, log.String(), fmt.Sprintf(form, word))
				}
			}
		}
	}
}

func derivedKey(t testing.TB, key []byte, info string) []byte {
	derived, err := hkdf.Key(sha256.New, key, nil, info, KeySize)
	require.NoError(t, err)
	return derived
}

// recorder is a failing test. It keeps the output of assertions.
type recorder struct{ bytes.Buffer }

func (r *recorder) Errorf(format string, args ...any) { fmt.Fprintf(r, format, args...) }

func TestAllocations(t *testing.T) {
	c := must(t, a5, "order", counting)
	text, small, n := c.Encode(42), c.EncodeBase32(42), c.EncodeInt(42)
	var err error
	for _, tt := range []struct {
		name string
		most float64
		f    func()
	}{
		{"Encode", 1, func() { text = c.Encode(42) }},
		{"EncodeBase32", 1, func() { small = c.EncodeBase32(42) }},
		{"Decode", 0, func() { _, err = c.Decode(text) }},
		{"Decode base 32", 0, func() { _, err = c.Decode(small) }},
		{"EncodeInt", 0, func() { n = c.EncodeInt(42) }},
		{"DecodeInt", 0, func() { _, err = c.DecodeInt(n) }},
	} {
		assert.LessOrEqual(t, testing.AllocsPerRun(100, tt.f), tt.most, tt.name)
		assert.NoError(t, err, tt.name)
	}
}

// FuzzDecode checks that Decode accepts only texts that the encoders write.
func FuzzDecode(f *testing.F) {
	for _, v := range vectors {
		f.Add(v.base62)
		f.Add(v.base32)
		f.Add(strings.ToUpper(v.base32))
	}
	for _, s := range []string{"", "0", max62, max32, "7n42DGM5Tflk9n8mt7Fhc8", "80000000000000000000000000",
		strings.Repeat("é", 11), strings.Repeat("\x00", 26), strings.Repeat("z", 22)} {
		f.Add(s)
	}
	c := must(f, counting, "order", a5)
	older := must(f, a5, "order")
	f.Fuzz(func(t *testing.T, s string) {
		id, err := c.Decode(s)
		if err != nil {
			require.ErrorIs(t, err, snowflake.ErrInvalidID)
			require.Zero(t, id)
			return
		}
		require.GreaterOrEqual(t, id, snowflake.ID(0))
		require.Contains(t, []string{c.Encode(id), c.EncodeBase32(id), older.Encode(id), older.EncodeBase32(id)}, restore(s))
	})
}

// restore returns a text of base 32 in small letters.
func restore(s string) string {
	if len(s) == len32 {
		return strings.ToLower(s)
	}
	return s
}

func FuzzEncode(f *testing.F) {
	for _, id := range []int64{0, 1, 1541815603606036480, math.MaxInt64, -1, math.MinInt64} {
		f.Add(id, "order")
	}
	f.Fuzz(func(t *testing.T, v int64, purpose string) {
		if purpose == "" {
			return
		}
		c, id := must(t, counting, purpose), snowflake.ID(v)
		require.Equal(t, slow(c.seal(id), digits62, len62), c.Encode(id))
		require.Equal(t, slow(c.seal(id), digits32, len32), c.EncodeBase32(id))
		for _, text := range []string{c.Encode(id), c.EncodeBase32(id)} {
			if id < 0 {
				requireRefused(t, c, text)
				continue
			}
			got, err := c.Decode(text)
			require.NoError(t, err)
			require.Equal(t, id, got)
		}
	})
}
