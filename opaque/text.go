package opaque

import "math/bits"

const (
	len62    = 22 // 62^22 > 2^128
	len32    = 26 // 32^26 > 2^128
	digits62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	digits32 = "0123456789abcdefghjkmnpqrstvwxyz"

	// The largest numbers. The digits are in ASCII order, so texts compare as numbers do.
	max62 = "7n42DGM5Tflk9n8mt7Fhc7"
	max32 = "7zzzzzzzzzzzzzzzzzzzzzzzzz"

	pow10 = 62 * 62 * 62 * 62 * 62 * 62 * 62 * 62 * 62 * 62 // 62^10: ten digits fit a word
)

const noDigit = 0xff

var (
	values62 = digitValues(digits62)
	values32 = digitValues(digits32)
)

func digitValues(digits string) (values [256]byte) {
	for i := range values {
		values[i] = noDigit
	}
	for i := range len(digits) {
		values[digits[i]] = byte(i)
	}
	return values
}

// base62 returns the digits of n: 2, then 10, then 10, which are a word each.
func (n number) base62() (b [len62]byte) {
	q, low := n.div(pow10)
	top, mid := q.div(pow10)
	write62(b[12:], low)
	write62(b[2:12], mid)
	write62(b[:2], top.lo)
	return b
}

func write62(b []byte, v uint64) {
	for i := len(b) - 1; i >= 0; i-- {
		b[i] = digits62[v%62]
		v /= 62
	}
}

func (n number) div(by uint64) (q number, rem uint64) {
	q.hi, rem = n.hi/by, n.hi%by
	q.lo, rem = bits.Div64(rem, n.lo, by)
	return q, rem
}

// parse62 reads the digits that base62 returns.
func parse62(s string) (number, bool) {
	top, ok1 := read62(s[:2])
	mid, ok2 := read62(s[2:12])
	low, ok3 := read62(s[12:])
	n := number{lo: top}.mulAdd(mid).mulAdd(low)
	return n, ok1 && ok2 && ok3 && s <= max62
}

func read62(s string) (v uint64, ok bool) {
	var all byte // the bits of all digits; only noDigit has the highest bits
	for i := range len(s) {
		d := values62[s[i]]
		v, all = v*62+uint64(d), all|d
	}
	return v, all != noDigit
}

// mulAdd returns n * 62^10 + v.
func (n number) mulAdd(v uint64) number {
	hi, lo := bits.Mul64(n.lo, pow10)
	lo, carry := bits.Add64(lo, v, 0)
	return number{hi + n.hi*pow10 + carry, lo}
}

func (n number) base32() (b [len32]byte) {
	for i := len32 - 1; i >= 0; i-- {
		b[i] = digits32[n.lo%32]
		n = number{n.hi >> 5, n.lo>>5 | n.hi<<59}
	}
	return b
}

// parse32 reads the digits that base32 returns, in small letters or capitals.
func parse32(s string) (n number, ok bool) {
	for i := range len32 {
		c := s[i]
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		d := values32[c]
		if d == noDigit {
			return number{}, false
		}
		n = number{n.hi<<5 | n.lo>>59, n.lo<<5 | uint64(d)}
	}
	return n, s[0] <= max32[0]
}
