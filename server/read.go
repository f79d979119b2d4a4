package server

import (
	"errors"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/layouts"
)

// layout returns the layout of a name or a spec. An empty text is the generator's.
func (s *Server) layout(text string) (snowflake.Layout, error) {
	if text == "" {
		return s.gen.Layout(), nil
	}
	if len(text) > longestLayout {
		return snowflake.Layout{}, wrong("layout", "%.32q... has %d bytes: %d are the most", text, len(text), longestLayout)
	}
	l, err := layouts.Parse(text)
	if err == nil {
		err = l.Validate()
	}
	if err == nil && !writable(l.Epoch.Time()) {
		err = errors.New("the epoch is not in the years 1 to 9999")
	}
	if err != nil {
		return l, &fieldError{"layout", err}
	}
	return l, nil
}

// longestLayout bounds the text of a layout in bytes, because errors have it, and errors are sent in headers.
const longestLayout = 200

// writable is whether a time has a text in JSON.
func writable(t time.Time) bool { return t.Year() >= 1 && t.Year() <= 9999 }

// decoded is an ID that was read.
type decoded struct {
	id     snowflake.ID
	form   string // how its text was read
	layout snowflake.Layout
	parts  snowflake.Parts
}

// parse reads an ID in the first form that fits.
func parse(field, text string) (d decoded, err error) {
	readings, err := layouts.Read([]string{text})
	if err != nil {
		return d, &fieldError{field, err}
	}
	return decoded{id: readings[0].IDs[0], form: readings[0].Form}, nil
}

// decode takes d.id apart.
func (s *Server) decode(field string, d decoded, layout string) (decoded, error) {
	var err error
	if d.layout, err = s.layout(layout); err != nil {
		return d, err
	}
	if err := d.layout.Check(d.id); err != nil {
		return d, &fieldError{field, err}
	}
	if d.parts = d.layout.Decode(d.id); !writable(d.parts.Time) {
		return d, wrong(field, "the time of %v, under the layout %v, is after the year 9999", d.id, d.layout)
	}
	return d, nil
}

// encode puts parts together. An error names the field of parts that does not fit.
func (s *Server) encode(p snowflake.Parts, layout string) (snowflake.ID, error) {
	l, err := s.layout(layout)
	if err != nil {
		return 0, err
	}
	id, err := l.Encode(p)
	if err == nil {
		return id, nil
	}
	field := "parts.time"
	if r := (*snowflake.FieldRangeError)(nil); errors.As(err, &r) {
		field = "parts." + r.Field
		if r.Field == "clock sequence" {
			field = "parts.clockseq"
		}
	}
	return 0, &fieldError{field, err}
}

// bounds returns the bounds of the IDs of [from, to). An error names the time that is wrong.
func (s *Server) bounds(from, to time.Time, layout string) (lo, hi snowflake.ID, err error) {
	l, err := s.layout(layout)
	if err != nil {
		return 0, 0, err
	}
	if _, _, err := l.Range(from, from); err != nil {
		return 0, 0, &fieldError{"from", err}
	}
	if lo, hi, err = l.Range(from, to); err != nil {
		return 0, 0, &fieldError{"to", err}
	}
	return lo, hi, nil
}
