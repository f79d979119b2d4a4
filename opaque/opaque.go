// Package opaque writes IDs as texts or as numbers that reveal nothing to outsiders.
//
// A snowflake ID shows its time and worker, and roughly the number of IDs. Whoever has one ID can
// guess others. If customers must not learn this from a URL, show them the text of a Codec instead,
// and keep the ID in the database:
//
//	orders, err := opaque.New(key, "order") // key: 32 random bytes, from your secrets
//	...
//	text := orders.Encode(id)      // 22 letters and digits
//	id, err := orders.Decode(text) // the ID, or an error that matches snowflake.ErrInvalidID
//
// [Codec.WithPrefix] puts a prefix before each text, for people: order_6jBeLMBn6gylueyOncP6gT. If a
// column or an API wants an integer, see "Numbers" below.
//
// # What it protects
//
//   - Time, worker and volume. Without the key, a text cannot be told from 128 random bits. The
//     texts of consecutive IDs have nothing in common, and do not sort by time.
//   - Enumeration. Decode accepts a made-up text with a probability of 2^-65 for each key of the
//     Codec, which is at most 2^-61 with [MaxKeys] keys.
//   - Kinds. The purpose is part of the key: if the text of an order is sent as the text of a user,
//     Decode refuses it, except with the same small probability.
//
// # What it does not protect
//
//   - Access. A text is not an authorisation. Whoever has a text can use it and pass it on for
//     ever. Check in each request whether this user may see this order.
//   - Equality. With one key and purpose, in one base, an ID always has the same text, which can be
//     part of a URL and of a cache's key. So anyone who sees a text twice knows that it names the
//     same thing.
//   - A leaked key. Whoever has the key can read all texts and make new texts. If you
//     change the key, the leaked key still reads the old texts.
//
// # Numbers
//
// For a bigint column, or an API that wants an integer, [Codec.EncodeInt] writes an ID as another
// number of 0 to 9223372036854775807. It hides time, worker, volume and order as well as a text
// does. But a number has no room for a check, so use a text where you can:
//
//   - Every number is the number of some ID. If you have n IDs, a guess is the number of one of
//     them with a probability of n / 2^63. So an ID from DecodeInt may not exist.
//   - A number does not show its purpose or its key. If either is wrong, DecodeInt returns another
//     ID and no error. If you change the key, all numbers change: store the key's name with each
//     number, and decode an old number with a Codec of its key.
//   - Like a text, a number does not protect access or equality, and hides nothing from anyone who
//     has the key.
//   - JavaScript rounds integers above 2^53, so write the number as a string in JSON.
//   - The web page of this module takes a number for an ID, because it must not have keys. Decode
//     numbers with "snowflake decode --opaque-int".
//
// The numbers are a permutation of 63 bits by a method of [NIST SP 800-38G], FF1: a Feistel network
// of ten rounds, each of which is a block of AES-256. The known attacks on FF1 (Bellare, Hoang and
// Tessaro 2016; Hoang, Tessaro and Trieu 2018) are on small domains that are encrypted under many
// tweaks. Against them the standard's draft of 2025 asks for domains of a million values or more;
// this one has 2^63, and a single tweak. The draft drops the other method, FF3, because its tweak
// served to break it (Durak and Vaudenay 2017; Beyne 2021). The proofs for Feistel networks (Luby
// and Rackoff 1988; Patarin 2004, for six rounds or more) hold if an attacker knows the IDs of many
// fewer than 2^31 numbers.
//
// # How it works
//
// An ID and 64 zero bits are encrypted as one block of AES-256. Decode decrypts the block, and
// refuses it unless these bits, and the ID's sign, are zero. The AES key is HKDF-SHA256 of the
// secret key, without a salt, with the info "snowflake/opaque/1/" followed by the purpose. The text
// is the prefix, if any, and the block as a big-endian number of 128 bits, in base 62 or base 32.
// So a few lines in another language can read it.
//
// A number is FF1 of the ID's 63 bits, the highest first, with radix 2 and the empty tweak. Its AES
// key is made in the same way, with the info "snowflake/opaque/int/1/" followed by the purpose.
//
// Decode tries every key, and checks the zeros without a branch. So its time shows neither how
// nearly a forgery passed, nor the key of a text. Otherwise the time depends only on the text,
// which is not secret. If the processor has no AES instructions, crypto/aes reads tables, and its
// time can depend on the key.
//
// [NIST SP 800-38G]: https://doi.org/10.6028/NIST.SP.800-38G
package opaque

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strings"
	"sync"

	"github.com/seed-5394e6b1/snowflake"
	rule "github.com/seed-5394e6b1/snowflake/internal/prefix"
)

const (
	// KeySize is the length of a key in bytes.
	KeySize = 32

	// MaxKeys is the greatest number of keys that a Codec takes. Each key adds 2^-65 to the
	// probability that a forged text passes.
	MaxKeys = 16

	// Never change these: all texts and numbers would change. No purpose makes one of the other.
	infoText = "snowflake/opaque/1/"
	infoInt  = "snowflake/opaque/int/1/"
)

// Codec writes and reads the texts and the numbers of one purpose. It is made by [New], and may be
// used by several goroutines at once. Printing it shows no key.
type Codec struct {
	// keys is a func so that the keys are never printed: some packages, such as testify, print the
	// values that pointers lead to, but only the address of a func.
	keys   func() keys
	prefix string // of its texts, with an underscore at the end; "" for no prefix
}

// keys are the ciphers of a Codec.
type keys struct {
	texts []cipher.Block // the newest first
	ints  *permutation   // of the newest key
}

// New returns a Codec that encodes with key, and decodes with key and each of older. A key is 32
// random bytes that you use for nothing else. If your secrets have it as 64 hexadecimal digits,
// decode them with encoding/hex first. The purpose, for example "order", is the kind of thing that
// the IDs name. It is not secret, and must not change.
//
// To change the key, first give every process the new key as one of older. Then make it the key,
// and move the earlier key to older. Drop the earlier key when you no longer need to read its
// texts. A text does not name its key, because that would show its age to outsiders. So Decode
// tries all keys, at the cost of one block of AES each.
//
// The error matches [snowflake.ErrInvalidOptions] if a key does not have 32 bytes or is all zeros,
// if there are more than 16 keys, or if the purpose is empty.
func New(key []byte, purpose string, older ...[]byte) (*Codec, error) {
	if purpose == "" {
		return nil, fmt.Errorf(`%w: opaque: the purpose is empty; say what the IDs are of, for example "order"`,
			snowflake.ErrInvalidOptions)
	}
	secrets := append([][]byte{key}, older...)
	if len(secrets) > MaxKeys {
		return nil, fmt.Errorf("%w: opaque: %d keys; at most %d are allowed", snowflake.ErrInvalidOptions, len(secrets), MaxKeys)
	}
	var all keys
	for i, k := range secrets {
		if len(k) != KeySize {
			return nil, fmt.Errorf("%w: opaque: key %d has %d bytes; it must have %d", snowflake.ErrInvalidOptions, i, len(k), KeySize)
		}
		if [KeySize]byte(k) == [KeySize]byte{} {
			return nil, fmt.Errorf("%w: opaque: key %d is all zeros", snowflake.ErrInvalidOptions, i)
		}
		block, err := derive(k, infoText+purpose)
		if err != nil {
			return nil, err
		}
		all.texts = append(all.texts, block)
	}
	block, err := derive(key, infoInt+purpose)
	if err != nil {
		return nil, err
	}
	all.ints = newPermutation(block)
	return &Codec{keys: func() keys { return all }}, nil
}

// derive returns AES-256 with a key that HKDF makes of a secret key and an info.
func derive(key []byte, info string) (cipher.Block, error) {
	extract := hmac.New(sha256.New, nil) // RFC 5869, 2.2
	extract.Write(key)
	expand := hmac.New(sha256.New, extract.Sum(nil)) // 2.3, of one block
	expand.Write(append([]byte(info), 1))
	block, err := aes.NewCipher(expand.Sum(nil))
	if err != nil {
		return nil, fmt.Errorf("opaque: %w", err)
	}
	return block, nil
}

// WithPrefix returns a Codec with the keys and the purpose of c, whose texts begin with prefix and
// an underscore: order_6jBeLMBn6gylueyOncP6gT. It reads only texts with this prefix, and c only
// texts without a prefix. The prefix is for people: it is not encrypted, and the purpose alone
// keeps the kinds apart.
//
// A prefix is 1 to 63 of a-z, 0-9 and underscores, with a letter first and no underscore last, as
// in package typed. If it is anything else, the error matches [snowflake.ErrInvalidOptions].
func (c *Codec) WithPrefix(prefix string) (*Codec, error) {
	if why := rule.Wrong(prefix); why != "" {
		return nil, fmt.Errorf("%w: opaque: the prefix %q %s", snowflake.ErrInvalidOptions, prefix, why)
	}
	return &Codec{keys: c.keys, prefix: prefix + "_"}, nil
}

// Encode returns the text of id: the prefix, if c has one, and 22 characters of 0-9A-Za-z, which
// are safe in a URL, a file name and a command line. Decode refuses the text of a negative ID.
func (c *Codec) Encode(id snowflake.ID) string {
	b := c.seal(id).base62()
	return c.prefix + string(b[:])
}

// EncodeBase32 returns the text of id for places where capitals equal small letters, such as some
// file systems or, without a prefix, host names: the prefix, if c has one, and 26 of Crockford's
// digits in small letters.
func (c *Codec) EncodeBase32(id snowflake.ID) string {
	b := c.seal(id).base32()
	return c.prefix + string(b[:])
}

// Decode returns the ID of a text that Encode or EncodeBase32 wrote with one of the keys of c, for
// its purpose and with its prefix. A text of EncodeBase32 may be in capitals. If the text is
// anything else, the error matches [snowflake.ErrInvalidID]. The error does not contain the text,
// because it may be most of a valid text.
//
// Anyone who has a text can also write it in base 32 or in capitals. So to recognise an ID, compare
// IDs, not texts.
func (c *Codec) Decode(text string) (snowflake.ID, error) {
	var n number
	var ok bool
	size := len(text) - len(c.prefix)
	switch {
	case size == len62 && text[:len(c.prefix)] == c.prefix:
		n, ok = parse62(text[len(c.prefix):])
	case size == len32 && strings.EqualFold(text[:len(c.prefix)], c.prefix):
		n, ok = parse32(text[len(c.prefix):])
	case c.prefix == "":
		return 0, fmt.Errorf("%w: an opaque text has %d or %d characters, not %d", snowflake.ErrInvalidID, len62, len32, len(text))
	default:
		return 0, fmt.Errorf("%w: an opaque text here is %s and %d or %d characters", snowflake.ErrInvalidID, c.prefix, len62, len32)
	}
	if !ok {
		return 0, fmt.Errorf("%w: not an opaque text: it has a character outside of the alphabet, or is over 128 bits",
			snowflake.ErrInvalidID)
	}
	id, ok := c.open(n)
	if !ok {
		return 0, fmt.Errorf("%w: the opaque text was not written with these keys and this purpose", snowflake.ErrInvalidID)
	}
	return id, nil
}

// blocks has memory for AES. Because cipher.Block is an interface, each call would allocate a local
// variable.
var blocks = sync.Pool{New: func() any { return new([aes.BlockSize]byte) }}

// seal encrypts id with the newest key.
func (c *Codec) seal(id snowflake.ID) number {
	b := blocks.Get().(*[aes.BlockSize]byte)
	defer blocks.Put(b)
	number{lo: uint64(id)}.put(b)
	c.keys().texts[0].Encrypt(b[:], b[:])
	return get(b)
}

// open decrypts n with each key, without a branch that depends on the result.
func (c *Codec) open(n number) (id snowflake.ID, ok bool) {
	b := blocks.Get().(*[aes.BlockSize]byte)
	defer blocks.Put(b)
	var found uint64
	for _, key := range c.keys().texts {
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

// number is a block as a 128-bit number.
type number struct{ hi, lo uint64 }

func get(b *[aes.BlockSize]byte) number {
	return number{binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])}
}

func (n number) put(b *[aes.BlockSize]byte) {
	binary.BigEndian.PutUint64(b[:8], n.hi)
	binary.BigEndian.PutUint64(b[8:], n.lo)
}
