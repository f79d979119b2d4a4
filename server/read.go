package server

import (
	"errors"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/cli/texts"
)

// layout parses the name or the spec of a layout. An empty text means the generator's.
func (s *Server) layout(text string) (snowflake.Layout, error) {
	if text == "" {
		i, err := s.issues()
		if err != nil {
			return snowflake.Layout{}, err
		}
		return i.gen.Layout(), sendable(i.gen.Layout())
	}
	if len(text) > longestLayout {
		return snowflake.Layout{}, wrong("layout", "%.32q... has %d bytes: %d are the most", text, len(text), longestLayout)
	}
	l, err := texts.Layout(text)
	if err == nil && !writable(l.Epoch.Time()) {
		err = errors.New("the epoch is not in the years 1 to 9999")
	}
	if err == nil {
		err = sendable(l)
	}
	if err != nil {
		return l, &fieldError{field: "layout", err: err}
	}
	return l, nil
}

// sendable returns an error if a field of the layout does not fit the int32 of the protocol.
func sendable(l snowflake.Layout) error {
	if n := max(l.ClockSeqBits, l.DatacenterBits, l.WorkerBits, l.SequenceBits); n > 31 {
		return wrong("layout", "a field has %d bits: 31 are the most", n)
	}
	return nil
}

// longestLayout bounds the text of a layout in bytes, because errors have it, and errors are sent
// in headers.
const longestLayout = 200

// writable reports whether a time can be written in JSON.
func writable(t time.Time) bool { return t.Year() >= 1 && t.Year() <= 9999 }

// decoded is an ID that was read.
type decoded struct {
	id     snowflake.ID
	form   string // the form of its text
	layout snowflake.Layout
	parts  snowflake.Parts
}

// read reads and decodes an ID, in the first form that fits.
func (s *Server) read(field, text, layout string) (decoded, error) {
	readings, err := texts.IDs([]string{text})
	if err != nil {
		return decoded{}, &fieldError{field: field, err: err}
	}
	first := readings[0]
	return s.decode(field, decoded{id: first.IDs[0], form: first.Form}, layout)
}

// decode decodes d.id.
func (s *Server) decode(field string, d decoded, layout string) (decoded, error) {
	var err error
	if d.layout, err = s.layout(layout); err != nil {
		return d, err
	}
	if err := d.layout.Check(d.id); err != nil {
		return d, &fieldError{field: field, err: err}
	}
	if d.parts = d.layout.Decode(d.id); !writable(d.parts.Time) {
		return d, wrong(field, "the time of %v, under the layout %v, is after the year 9999", d.id, d.layout)
	}
	return d, nil
}
