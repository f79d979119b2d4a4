package opaque

import (
	"fmt"

	"github.com/seed-5394e6b1/snowflake"
)

// ID is an ID that is written as its opaque text: in JSON, XML, YAML, logs, flags and
// by fmt. It carries its Codec, so that there is no state of the package:
//
//	json.Marshal(Reply{Order: orders.Wrap(id)}) // {"order":"4KkW3kJp..."}
//
// To read one, give the target its Codec first:
//
//	req := Request{Order: orders.Wrap(0)}
//	err := json.Unmarshal(body, &req)
//	id := req.Order.ID()
//
// A decoder makes the elements of a slice or a map anew, and these have no Codec:
// read such texts as strings, and [Codec.Decode] each.
type ID struct {
	codec *Codec
	id    snowflake.ID
}

// Wrap returns id as one that is written and read by c.
func (c *Codec) Wrap(id snowflake.ID) ID { return ID{c, id} }

// ID returns the ID itself, for the database.
func (x ID) ID() snowflake.ID { return x.id }

// String returns the text of x, or a note if x was not made by [Codec.Wrap]. It
// never shows the ID itself.
func (x ID) String() string {
	if x.codec == nil {
		return "opaque.ID(no Codec)"
	}
	return x.codec.Encode(x.id)
}

// Format writes the text of x for every verb, so that no log shows the ID itself.
func (x ID) Format(f fmt.State, verb rune) {
	if verb == 'q' {
		fmt.Fprintf(f, "%q", x.String())
		return
	}
	fmt.Fprint(f, x.String())
}

// AppendText appends the text of x to b. If x was not made by [Codec.Wrap], or is
// of a negative ID, the error matches [snowflake.ErrInvalidID].
func (x ID) AppendText(b []byte) ([]byte, error) {
	if x.codec == nil {
		return b, errNoCodec()
	}
	if x.id < 0 {
		return b, fmt.Errorf("%w: %d is negative", snowflake.ErrInvalidID, int64(x.id))
	}
	text := x.codec.seal(x.id).base62()
	return append(b, text[:]...), nil
}

// MarshalText returns the text of x, or AppendText's error.
func (x ID) MarshalText() ([]byte, error) {
	return x.AppendText(make([]byte, 0, len62))
}

// UnmarshalText reads a text as [Codec.Decode] does, with the Codec that x was
// wrapped with. On error x is unchanged.
func (x *ID) UnmarshalText(b []byte) error {
	if x.codec == nil {
		return errNoCodec()
	}
	id, err := x.codec.Decode(string(b))
	if err != nil {
		return err
	}
	x.id = id
	return nil
}

func errNoCodec() error {
	return fmt.Errorf("%w: this opaque.ID has no Codec; make it with Codec.Wrap, also before it is read into", snowflake.ErrInvalidID)
}
