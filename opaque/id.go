package opaque

import (
	"database/sql/driver"
	"fmt"

	"github.com/seed-5394e6b1/snowflake"
)

// ID is an ID that is written as its opaque text: in JSON, XML, YAML, logs, flags and
// by fmt. It carries its Codec, so the package needs no global state:
//
//	json.Marshal(Reply{Order: orders.Wrap(id)}) // {"order":"4KkW3kJp..."}
//
// To read one, give the target its Codec first:
//
//	req := Request{Order: orders.Wrap(0)}
//	err := json.Unmarshal(body, &req)
//	id := req.Order.ID()
//
// A decoder makes the elements of a slice or a map itself, so they have no Codec:
// read their texts as strings, and pass each to [Codec.Decode]. If the field is
// missing from the JSON, or null, the ID stays what Wrap made it: 0 here.
//
// A database has the number: send x.ID() to it, and pass its answer to Wrap. Value
// refuses x itself as a parameter of a query.
//
// IDs of one Codec may be compared with ==.
type ID struct {
	codec *Codec
	block number // encrypted, because fmt prints unexported fields of structs that contain an ID
}

// Wrap returns id as an ID that c writes and reads.
func (c *Codec) Wrap(id snowflake.ID) ID { return ID{c, c.seal(id)} }

// ID returns the ID itself, for the database; 0 if x was not made by [Codec.Wrap].
func (x ID) ID() snowflake.ID {
	if x.codec == nil {
		return 0
	}
	return x.codec.unseal(x.block)
}

// String returns the text of x, or a note if x was not made by [Codec.Wrap]. It
// never shows the ID itself.
func (x ID) String() string {
	if x.codec == nil {
		return "opaque.ID(no Codec)"
	}
	b := x.block.base62()
	return x.codec.prefix + string(b[:])
}

// Format writes the text of x for every verb, so that no log shows the ID itself.
func (x ID) Format(f fmt.State, verb rune) {
	if verb == 'q' {
		fmt.Fprintf(f, "%q", x.String())
		return
	}
	fmt.Fprint(f, x.String())
}

// AppendText appends the text of x to b. If the ID is negative, the error matches
// [snowflake.ErrInvalidID]; if x was not made by [Codec.Wrap], it matches
// [snowflake.ErrInvalidOptions].
func (x ID) AppendText(b []byte) ([]byte, error) {
	if x.codec == nil {
		return b, errNoCodec()
	}
	if id := x.ID(); id < 0 {
		return b, fmt.Errorf("%w: %d is negative", snowflake.ErrInvalidID, int64(id))
	}
	text := x.block.base62()
	return append(append(b, x.codec.prefix...), text[:]...), nil
}

// MarshalText returns the text of x, or AppendText's error.
func (x ID) MarshalText() ([]byte, error) {
	return x.AppendText(nil)
}

// UnmarshalText reads a text as [Codec.Decode] does, with the Codec of x. If x was
// not made by [Codec.Wrap], the error matches [snowflake.ErrInvalidOptions]: the
// program is wrong, and not the text. If there is an error, x does not change.
func (x *ID) UnmarshalText(b []byte) error {
	if x.codec == nil {
		return errNoCodec()
	}
	id, err := x.codec.Decode(string(b))
	if err != nil {
		return err
	}
	x.block = x.codec.seal(id)
	return nil
}

// Value always returns an error, which matches [snowflake.ErrInvalidOptions].
// Without it, some drivers would store the text of x in a database.
func (x ID) Value() (driver.Value, error) {
	return nil, fmt.Errorf("%w: an opaque.ID cannot be a parameter of a query; send the number, its ID(), to a BIGINT column", snowflake.ErrInvalidOptions)
}

func errNoCodec() error {
	return fmt.Errorf("%w: this opaque.ID has no Codec; make it with Codec.Wrap, also before you decode into it", snowflake.ErrInvalidOptions)
}
