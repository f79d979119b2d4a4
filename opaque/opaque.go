// Package opaque writes IDs for outsiders, as texts that reveal nothing.
//
// A snowflake shows when it was made, by which worker, and roughly how many
// there are; and who has one ID can guess others. If customers must not learn
// any of that from a URL, show them the text of a Codec instead, and keep the ID
// in the database:
//
//	orders, err := opaque.New(key, "order") // key: 32 random bytes, from your secrets
//	...
//	text := orders.Encode(id)      // 22 letters and digits
//	id, err := orders.Decode(text) // the ID, or an error that matches snowflake.ErrInvalidID
//
// # What it protects
//
//   - Time, worker and volume. Without the key, a text cannot be told from 128
//     random bits. The texts of two IDs that follow each other have nothing in
//     common, and do not sort by time.
//   - Enumeration. A text that somebody makes up is taken with a chance of at
//     most 2^-61.
//   - Kinds. The purpose is part of the key: the text of an order is refused, with
//     the same chance, where the text of a user is expected.
//
// # What it does not protect
//
// HAZARD: a text is not an authorisation. Whoever was given a text can use it and
// pass it on, for ever. Check in each request whether this user may see this order.
//
// HAZARD: an ID has the same text each time (under one key and purpose), so that it
// can be part of a URL and of a cache's key. So whoever sees a text twice knows
// that it names the same thing.
//
// HAZARD: who has the key can read all texts and make new ones. If a key has leaked,
// the texts that it wrote stay readable to whoever has it.
//
// # How it works
//
// An ID and 64 zero bits are encrypted as one block of AES-256. To decode is to
// decrypt, and to refuse whatever does not have all of these zeros (and the zero
// that is an ID's sign). The AES key is HKDF-SHA256 of the secret key, without a
// salt, for the info "snowflake/opaque/1/" and the purpose. The text is the block
// as a big-endian number of 128 bits, in base 62 or base 32. Nothing else is in
// it, so that other languages can read it with a few lines.
//
// Decode tries every key, and looks at the zeros of each without a branch: the
// time that Decode takes says neither how nearly a forgery passed, nor which key
// wrote a text. The rest depends on the text alone, which is no secret. This is as good as
// crypto/aes: on processors without AES instructions, that package reads tables.
package opaque

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/seed-5394e6b1/snowflake"
)

const (
	// KeySize is how many bytes a key has.
	KeySize = 32

	// MaxKeys is how many keys a Codec takes in all. Each gives a forged text
	// another chance of 2^-65.
	MaxKeys = 16

	info = "snowflake/opaque/1/" // never change it: all texts would change
)

// Codec writes and reads the texts of one purpose. It may be used by several
// goroutines at once. Make it with [New].
type Codec struct {
	keys []cipher.Block // the newest first
}

// New returns a Codec that encodes with key and decodes with key and each of
// older. A key is 32 random bytes, and is for this alone. The purpose, for example
// "order", is not secret; it says what the IDs are of, and must not change.
//
// To change the key, first give every process the new one among older, then make
// it the key and the earlier key one of older, and drop that one when its texts
// need no longer be read. A text does not say which key it was written with: a
// key's number would be longer, and tell outsiders how old a text is. Decode tries
// all keys, which costs a block of AES each.
//
// A key that does not have 32 bytes or is all zeros, more than 16 keys, and an
// empty purpose give an error that matches [snowflake.ErrInvalidOptions].
func New(key []byte, purpose string, older ...[]byte) (*Codec, error) {
	if purpose == "" {
		return nil, fmt.Errorf(`%w: opaque: the purpose is empty; say what the IDs are of, for example "order"`, snowflake.ErrInvalidOptions)
	}
	keys := append([][]byte{key}, older...)
	if len(keys) > MaxKeys {
		return nil, fmt.Errorf("%w: opaque: %d keys, there may be %d", snowflake.ErrInvalidOptions, len(keys), MaxKeys)
	}
	c := new(Codec)
	for i, k := range keys {
		if len(k) != KeySize {
			return nil, fmt.Errorf("%w: opaque: key %d has %d bytes, it must have %d", snowflake.ErrInvalidOptions, i, len(k), KeySize)
		}
		if [KeySize]byte(k) == [KeySize]byte{} {
			return nil, fmt.Errorf("%w: opaque: key %d is all zeros", snowflake.ErrInvalidOptions, i)
		}
		derived, err := hkdf.Key(sha256.New, k, nil, info+purpose, KeySize)
		if err != nil {
			return nil, fmt.Errorf("opaque: %w", err)
		}
		block, err := aes.NewCipher(derived)
		if err != nil {
			return nil, fmt.Errorf("opaque: %w", err)
		}
		c.keys = append(c.keys, block)
	}
	return c, nil
}

// Encode returns the text of id: always 22 characters of 0-9A-Za-z, which are
// safe in a URL, a file name and a command line. Capitals matter; see
// [Codec.EncodeBase32]. A negative id has a text that Decode refuses.
func (c *Codec) Encode(id snowflake.ID) string {
	b := c.seal(id).base62()
	return string(b[:])
}

// EncodeBase32 returns the text of id for places that do not keep capitals apart, as
// host names and some file systems: always 26 characters, Crockford's
// digits and small letters.
func (c *Codec) EncodeBase32(id snowflake.ID) string {
	b := c.seal(id).base32()
	return string(b[:])
}

// Decode returns the ID of a text that Encode wrote or, in capitals or small
// letters, EncodeBase32, under one of the keys of c and for its purpose. Any other
// text gives an error that matches [snowflake.ErrInvalidID]. It does not contain
// the text, which may be a good one that was cut off.
func (c *Codec) Decode(text string) (snowflake.ID, error) {
	var n number
	var ok bool
	switch len(text) {
	case len62:
		n, ok = parse62(text)
	case len32:
		n, ok = parse32(text)
	default:
		return 0, fmt.Errorf("%w: an opaque text has %d or %d characters, not %d", snowflake.ErrInvalidID, len62, len32, len(text))
	}
	if !ok {
		return 0, fmt.Errorf("%w: not an opaque text: it has a character outside of the alphabet, or is over 128 bits", snowflake.ErrInvalidID)
	}
	id, ok := c.open(n)
	if !ok {
		return 0, fmt.Errorf("%w: the opaque text was not written with these keys and this purpose", snowflake.ErrInvalidID)
	}
	return id, nil
}

// blocks has memory for AES, which it reads and writes through an interface, so
// that variables would be allocated for each call.
var blocks = sync.Pool{New: func() any { return new([aes.BlockSize]byte) }}

// seal encrypts id with the newest key.
func (c *Codec) seal(id snowflake.ID) number {
	b := blocks.Get().(*[aes.BlockSize]byte)
	defer blocks.Put(b)
	number{lo: uint64(id)}.put(b)
	c.keys[0].Encrypt(b[:], b[:])
	return get(b)
}

// open decrypts n with each key, without a branch that depends on what comes out.
func (c *Codec) open(n number) (id snowflake.ID, ok bool) {
	b := blocks.Get().(*[aes.BlockSize]byte)
	defer blocks.Put(b)
	var found uint64
	for _, key := range c.keys {
		n.put(b)
		key.Decrypt(b[:], b[:])
		plain := get(b)
		extra := plain.hi | plain.lo>>63 // 0 if this is an ID
		mask := (extra|-extra)>>63 - 1   // all ones if extra is 0, else 0
		id |= snowflake.ID(plain.lo & mask)
		found |= mask
	}
	return id, found != 0
}

// number is a block as a number of 128 bits.
type number struct{ hi, lo uint64 }

func get(b *[aes.BlockSize]byte) number {
	return number{binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])}
}

func (n number) put(b *[aes.BlockSize]byte) {
	binary.BigEndian.PutUint64(b[:8], n.hi)
	binary.BigEndian.PutUint64(b[8:], n.lo)
}
