package opaque

import (
	"crypto/aes"
	"crypto/cipher"
	"fmt"
	"math"

	"github.com/seed-5394e6b1/snowflake"
)

// EncodeInt returns the number of id under the newest key: 0 to 9223372036854775807, different for
// each ID. It does not depend on the prefix of c. If id is negative, so is the number, and
// DecodeInt refuses it. The package doc compares numbers with texts.
func (c *Codec) EncodeInt(id snowflake.ID) int64 {
	n := int64(c.keys().ints.encrypt(uint64(id) & math.MaxInt64))
	return n | int64(id)&math.MinInt64
}

// DecodeInt returns the ID whose number under the newest key and the purpose of c is n. If n is
// negative, the error matches [snowflake.ErrInvalidID]. Every other n is the number of some ID: for
// an invented number, or one of another key or purpose, DecodeInt returns an ID that you most
// likely do not have, and no error. It does not try older keys, because a number does not show its
// key.
func (c *Codec) DecodeInt(n int64) (snowflake.ID, error) {
	if n < 0 {
		return 0, fmt.Errorf("%w: the number %d is negative, and no opaque number is", snowflake.ErrInvalidID, n)
	}
	return snowflake.ID(c.keys().ints.decrypt(uint64(n))), nil
}

// permutation is FF1 of NIST SP 800-38G for 63 digits of radix 2, without a tweak: ten rounds of a
// Feistel network, whose halves have 31 and 32 bits.
type permutation struct {
	aes   cipher.Block
	start number // the standard's block P, encrypted, from which each round continues
}

const (
	rounds = 10
	mask31 = 1<<31 - 1
)

func newPermutation(block cipher.Block) *permutation {
	b := [aes.BlockSize]byte{0: 1, 1: 2, 2: 1, 5: 2, 6: rounds, 7: 31, 11: 63}
	block.Encrypt(b[:], b[:])
	return &permutation{block, get(&b)}
}

// encrypt returns the number of x. Both have 63 bits.
func (p *permutation) encrypt(x uint64) uint64 {
	a, b := uint32(x>>32), uint32(x)
	buf := blocks.Get().(*[aes.BlockSize]byte)
	defer blocks.Put(buf)
	for i := uint64(0); i < rounds; i += 2 {
		a = (a + p.round(i, b, buf)) & mask31
		b += p.round(i+1, a, buf)
	}
	return uint64(a)<<32 | uint64(b)
}

// decrypt is the inverse of encrypt.
func (p *permutation) decrypt(x uint64) uint64 {
	a, b := uint32(x>>32), uint32(x)
	buf := blocks.Get().(*[aes.BlockSize]byte)
	defer blocks.Put(buf)
	for i := uint64(rounds); i > 0; i -= 2 {
		b -= p.round(i-1, a, buf)
		a = (a - p.round(i-2, b, buf)) & mask31
	}
	return uint64(a)<<32 | uint64(b)
}

// round returns the number that round i adds to one half and makes of the other: the low 32 bits of
// the standard's y. The standard's block Q is 11 zeros, a byte for i, and the half.
func (p *permutation) round(i uint64, half uint32, buf *[aes.BlockSize]byte) uint32 {
	number{p.start.hi, p.start.lo ^ i<<32 ^ uint64(half)}.put(buf)
	p.aes.Encrypt(buf[:], buf[:])
	return uint32(get(buf).hi)
}
