package input

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// longestObject bounds a line with a JSON object, in bytes.
const longestObject = 16 << 20

// json reads a field of JSON objects, one a line or in an array.
func (r *reader) json() error {
	b, err := r.in.Peek(longestMagic)
	if err != nil && err != io.EOF {
		return err
	}
	if !bytes.HasPrefix(bytes.TrimLeft(bytes.TrimPrefix(b, []byte(mark)), " \t\r\n"), []byte("[")) {
		return r.eachLine(longestObject, "", func(line int, text string) error { return r.object(line, []byte(text)) })
	}
	if bytes.HasPrefix(b, []byte(mark)) {
		_, _ = r.in.Discard(len(mark))
	}
	d := json.NewDecoder(r.in)
	if _, err := d.Token(); err != nil {
		return err
	}
	for n := 1; d.More(); n++ {
		var object json.RawMessage
		if err := d.Decode(&object); err != nil {
			return fmt.Errorf("element %d: %w", n, err)
		}
		if err := r.object(n, object); err != nil {
			return err
		}
	}
	_, err = d.Token()
	return err
}

// object passes on the field of an object.
func (r *reader) object(line int, object []byte) error {
	value, err := fieldOf(object, r.Field)
	if err != nil {
		return r.bad(line, "%w", err)
	}
	text := string(value)
	switch {
	case value[0] == '"':
		_ = json.Unmarshal(value, &text) // it is valid
	case value[0] == '{' || value[0] == '[':
		return r.bad(line, "the field %s is no number or text", r.Field)
	}
	return r.word(line, text)
}

// fieldOf returns the value of a field. A name with a point may be the path of a field.
func fieldOf(object []byte, name string) (json.RawMessage, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(object, &fields); err != nil {
		return nil, errors.New("not a JSON object: " + strings.TrimPrefix(err.Error(), "json: "))
	}
	if value, ok := fields[name]; ok {
		return value, nil
	}
	if outer, inner, ok := strings.Cut(name, "."); ok && fields[outer] != nil {
		return fieldOf(fields[outer], inner)
	}
	return nil, fmt.Errorf("no field %q; the fields are %.200s", name, strings.Join(slices.Sorted(maps.Keys(fields)), ", "))
}

// firstKeys returns the names of the fields of the object at the start of a text.
func firstKeys(text string) []string {
	var fields map[string]json.RawMessage
	// If the line has only a part of an object, Decode returns an error and the fields before.
	_ = json.NewDecoder(strings.NewReader(text)).Decode(&fields)
	return slices.Sorted(maps.Keys(fields))
}
