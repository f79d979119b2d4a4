//go:build go1.25

package opaque

import (
	"crypto/aes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
)

// BenchmarkFloor encrypts one block of AES, which is the least cost of an ID.
func BenchmarkFloor(b *testing.B) {
	block, err := aes.NewCipher(a5)
	require.NoError(b, err)
	buf := make([]byte, aes.BlockSize)
	for b.Loop() {
		block.Encrypt(buf, buf)
	}
}

func BenchmarkEncode(b *testing.B) {
	c := must(b, a5, "order")
	for base, encode := range map[int]func(snowflake.ID) string{62: c.Encode, 32: c.EncodeBase32} {
		b.Run(fmt.Sprintf("base=%d", base), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				encode(117469438034313216)
			}
		})
	}
}

// BenchmarkInt has ten blocks of AES for each number.
func BenchmarkInt(b *testing.B) {
	c := must(b, a5, "order")
	b.Run("EncodeInt", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			c.EncodeInt(117469438034313216)
		}
	})
	b.Run("DecodeInt", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := c.DecodeInt(1255396825584236935); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	for _, keys := range []int{1, 2, 16} {
		older := make([][]byte, keys-1)
		for i := range older {
			older[i] = append([]byte{byte(i)}, counting[1:]...)
		}
		c := must(b, a5, "order", older...)
		for base, text := range map[int]string{62: c.Encode(117469438034313216), 32: c.EncodeBase32(117469438034313216)} {
			b.Run(fmt.Sprintf("base=%d/keys=%d", base, keys), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := c.Decode(text); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
