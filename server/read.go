package server

import (
	"fmt"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/answers"
	"github.com/seed-5394e6b1/snowflake/internal/texts"
)

// layout parses the name or the spec of a layout. An empty text means the generator's layout.
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
	if err != nil {
		return l, invalid("layout", err)
	}
	if !writable(l.Epoch.Time()) {
		return l, wrong("layout", "the epoch is not in the years 1 to 9999")
	}
	return l, sendable(l)
}

// sendable returns an error if a field of the layout does not fit the int32 of the protocol.
func sendable(l snowflake.Layout) error {
	if n := max(l.ClockSeqBits, l.DatacenterBits, l.WorkerBits, l.SequenceBits); n > 31 {
		return wrong("layout", "a field has %d bits: 31 are the most", n)
	}
	return nil
}

// longestLayout is the maximum size of a layout's text in bytes: errors quote it, and are sent in
// headers.
const longestLayout = 200

// writable reports whether a time can be written in JSON.
func writable(t time.Time) bool { return t.Year() >= 1 && t.Year() <= 9999 }

// decoded is the answer with the fields of an ID.
type decoded struct{ answers.Decoded }

func (d decoded) text() []byte {
	text := fmt.Appendf(nil, "%v %v", d.ID, d.Parts.Parts)
	if d.Form != "decimal" {
		text = fmt.Appendf(text, " form=%q", d.Form)
	}
	return append(text, '\n')
}

// read parses an ID in the first form that fits, and decodes it. field names it in errors.
func (s *Server) read(field, text, layout string) (d decoded, err error) {
	readings, err := texts.IDs([]string{text})
	if err != nil {
		return d, invalid(field, err)
	}
	return s.decode(field, readings[0].IDs[0], readings[0].Form, layout)
}

// decode decodes an ID. field names it in errors, and form is the form in which it was written.
func (s *Server) decode(field string, id snowflake.ID, form, layout string) (d decoded, err error) {
	l, err := s.layout(layout)
	if err != nil {
		return d, err
	}
	if err := l.Check(id); err != nil {
		return d, invalid(field, err)
	}
	if !writable(l.Decode(id).Time) {
		return d, wrong(field, "the time of %v, under the layout %v, is after the year 9999", id, l)
	}
	return decoded{answers.Decode(id, form, l)}, nil
}
