//go:build go1.25

package opaque

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/hex"
	"math"
	"math/big"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
)

// The numbers were made by another program: FF1 of the npm package @noble/ciphers, and Node.js's
// HKDF.
var numbers = []struct {
	key     []byte
	purpose string
	id      snowflake.ID
	number  int64
}{
	{counting, "order", 0, 9007265703956674739},
	{counting, "order", 1, 8871072913997801140},
	{counting, "order", 1541815603606036480, 4219955304989676945},
	{counting, "order", 9223372036854775807, 5823970429092388642},
	{counting, "user", 0, 1939280773302973259},
	{counting, "注文", 1541815603606036480, 5105407659030453623},
	{a5, "order", 1, 4527644750259251697},
	{a5, "order", 117469438034313216, 1255396825584236935},
	{a5, "user", 9223372036854775807, 1804226087142619781},
}

func TestKnownNumbers(t *testing.T) {
	for _, v := range numbers {
		c := must(t, v.key, v.purpose)
		assert.Equal(t, v.number, c.EncodeInt(v.id))
		id, err := c.DecodeInt(v.number)
		assert.NoError(t, err)
		assert.Equal(t, v.id, id)
	}
}

// ff1 is FF1 of SP 800-38G, step by step, for any radix, length and tweak.
func ff1(t testing.TB, key, tweak []byte, radix int64, x []int64, decrypt bool) []int64 {
	block, err := aes.NewCipher(key)
	require.NoError(t, err)
	n, r := len(x), big.NewInt(radix)
	u := n / 2
	v := n - u
	power := func(m int) *big.Int { return new(big.Int).Exp(r, big.NewInt(int64(m)), nil) }
	b := (new(big.Int).Sub(power(v), big.NewInt(1)).BitLen() + 7) / 8
	d := 4*((b+3)/4) + 4
	num := func(digits []int64) *big.Int {
		sum := new(big.Int)
		for _, digit := range digits {
			sum.Mul(sum, r).Add(sum, big.NewInt(digit))
		}
		return sum
	}
	str := func(c *big.Int, m int) []int64 {
		digits, rest := make([]int64, m), new(big.Int)
		for i := m - 1; i >= 0; i-- {
			c, rest = new(big.Int).DivMod(c, r, new(big.Int))
			digits[i] = rest.Int64()
		}
		return digits
	}
	p := []byte{1, 2, 1, 0, byte(radix >> 8), byte(radix), 10, byte(u), 0, 0, byte(n >> 8), byte(n), 0, 0, 0, byte(len(tweak))}
	f := func(i int, half []int64) *big.Int {
		q := append([]byte{}, tweak...)
		q = append(q, make([]byte, (16-(len(tweak)+b+1)%16)%16)...)
		q = append(q, byte(i))
		q = append(q, num(half).FillBytes(make([]byte, b))...)
		mac := append(append([]byte{}, p...), q...)
		cipher.NewCBCEncrypter(block, make([]byte, 16)).CryptBlocks(mac, mac)
		s := append([]byte{}, mac[len(mac)-16:]...)
		for j := 1; len(s) < d; j++ {
			next := new(big.Int).SetBytes(s[:16])
			next.Xor(next, big.NewInt(int64(j)))
			more := next.FillBytes(make([]byte, 16))
			block.Encrypt(more, more)
			s = append(s, more...)
		}
		return new(big.Int).SetBytes(s[:d])
	}
	left, right := x[:u], x[u:]
	for step := range 10 {
		i := step
		if decrypt {
			i = 9 - step
		}
		m := u
		if i%2 == 1 {
			m = v
		}
		if decrypt {
			c := new(big.Int).Sub(num(right), f(i, left))
			left, right = str(c.Mod(c, power(m)), m), left
		} else {
			c := new(big.Int).Add(num(left), f(i, right))
			left, right = right, str(c.Mod(c, power(m)), m)
		}
	}
	return append(append([]int64{}, left...), right...)
}

// The samples are NIST's, of its "Examples with Intermediate Values" for FF1.
func TestReferenceMatchesTheSamplesOfNIST(t *testing.T) {
	const key = "2B7E151628AED2A6ABF7158809CF4F3CEF4359D8D580AA4F7F036D6F04FC6A94"
	const ten, nineteen = "0123456789", "0123456789abcdefghi"
	for _, tt := range []struct {
		keySize       int
		tweak         string
		radix         int64
		plain, cipher string
	}{
		{16, "", 10, ten, "2433477484"},
		{16, "9876543210", 10, ten, "6124200773"},
		{16, "7777pqrs777", 36, nineteen, "a9tv40mll9kdu509eum"},
		{24, "", 10, ten, "2830668132"},
		{24, "9876543210", 10, ten, "2496655549"},
		{24, "7777pqrs777", 36, nineteen, "xbj3kv35jrawxv32ysr"},
		{32, "", 10, ten, "6657667009"},
		{32, "9876543210", 10, ten, "1001623463"},
		{32, "7777pqrs777", 36, nineteen, "xs8a0azh2avyalyzuwd"},
	} {
		k, err := hex.DecodeString(key)
		require.NoError(t, err)
		k = k[:tt.keySize]
		plain, cipher := digitsOf(tt.plain), digitsOf(tt.cipher)
		assert.Equal(t, cipher, ff1(t, k, []byte(tt.tweak), tt.radix, plain, false))
		assert.Equal(t, plain, ff1(t, k, []byte(tt.tweak), tt.radix, cipher, true))
	}
}

func digitsOf(s string) (digits []int64) {
	for _, c := range s {
		digits = append(digits, int64(strings.IndexRune("0123456789abcdefghijklmnopqrstuvwxyz", c)))
	}
	return digits
}

// slowInt is EncodeInt, or DecodeInt, with the reference.
func slowInt(t testing.TB, key []byte, v int64, decrypt bool) int64 {
	x := strconv.FormatInt(v, 2)
	digits := ff1(t, key, nil, 2, digitsOf(strings.Repeat("0", 63-len(x))+x), decrypt)
	for _, digit := range digits {
		v = v<<1 | digit
	}
	return v & math.MaxInt64
}

func TestNumbersMatchTheReference(t *testing.T) {
	block, err := aes.NewCipher(a5)
	require.NoError(t, err)
	p := newPermutation(block)
	for _, id := range randomIDs(300) {
		require.EqualValues(t, slowInt(t, a5, int64(id), false), p.encrypt(uint64(id)), "%d", id)
		require.EqualValues(t, slowInt(t, a5, int64(id), true), p.decrypt(uint64(id)), "%d", id)
	}
}

func TestEachNumberHasOneID(t *testing.T) {
	c := must(t, a5, "order")
	ids := randomIDs(10_000)
	for i := range snowflake.ID(10_000) {
		ids = append(ids, 117469438034313216+i, i<<32, math.MaxInt64-i)
	}
	for _, id := range ids {
		n := c.EncodeInt(id)
		require.GreaterOrEqual(t, n, int64(0))
		got, err := c.DecodeInt(n)
		require.NoError(t, err)
		require.Equal(t, id, got)

		id, err = c.DecodeInt(int64(id)) // any number is the number of an ID
		require.NoError(t, err)
		require.GreaterOrEqual(t, id, snowflake.ID(0))
		require.Equal(t, int64(got), c.EncodeInt(id))
	}
}

func TestNegativeNumbersAreRefused(t *testing.T) {
	c := must(t, a5, "order")
	for _, n := range []int64{-1, -2, math.MinInt64, c.EncodeInt(-1), c.EncodeInt(math.MinInt64)} {
		require.Negative(t, n)
		id, err := c.DecodeInt(n)
		require.ErrorIs(t, err, snowflake.ErrInvalidID)
		require.ErrorContains(t, err, strconv.FormatInt(n, 10)+" is negative")
		require.Zero(t, id)
	}
}

// The number depends on the newest key and the purpose, and on nothing else.
func TestNumbersOfAnotherPurposeOrKeyDiffer(t *testing.T) {
	c := must(t, a5, "order")
	prefixed, err := c.WithPrefix("order")
	require.NoError(t, err)
	for _, same := range []*Codec{prefixed, must(t, a5, "order", counting)} {
		assert.Equal(t, c.EncodeInt(7), same.EncodeInt(7))
	}
	for _, other := range []*Codec{must(t, a5, "user"), must(t, counting, "order", a5)} {
		for _, id := range randomIDs(100) {
			got, err := other.DecodeInt(c.EncodeInt(id))
			require.NoError(t, err)
			require.NotEqual(t, id, got)
		}
	}
}

func FuzzInt(f *testing.F) {
	for _, v := range numbers {
		f.Add(int64(v.id), v.purpose)
		f.Add(v.number, v.purpose)
	}
	f.Add(int64(-1), "order")
	f.Fuzz(func(t *testing.T, v int64, purpose string) {
		if purpose == "" {
			return
		}
		c := must(t, counting, purpose)
		n := c.EncodeInt(snowflake.ID(v))
		got, err := c.DecodeInt(n)
		if v < 0 {
			require.ErrorIs(t, err, snowflake.ErrInvalidID)
			return
		}
		require.NoError(t, err)
		require.EqualValues(t, v, got)
		key := derivedKey(t, counting, infoInt+purpose)
		require.Equal(t, slowInt(t, key, v, false), n)
	})
}
