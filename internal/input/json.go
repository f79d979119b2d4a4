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

	"github.com/seed-5394e6b1/snowflake/internal/texts"
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
	if value == nil {
		return r.bad(line, "no field %q; %s", r.Field, fieldsOf(object))
	}
	text := string(value)
	switch {
	case value[0] == '"':
		_ = json.Unmarshal(value, &text) // it is valid
	case isNumber(texts.Bare(text)): // {"$numberLong": "5"}
	case value[0] == '{' || value[0] == '[':
		return r.bad(line, "the field %s is no number or text", r.Field)
	}
	return r.word(line, text)
}

// fieldOf returns the value of a field, or nil if there is none. A name with a point may be the
// path of a field.
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
	return nil, nil
}

// fieldsOf names the fields of an object that hold IDs or, if none does, all fields.
func fieldsOf(object []byte) string {
	fields := parsed(string(object))
	if paths := idPaths("", fields); len(paths) > 0 {
		return fmt.Sprintf("IDs are in %.200s", strings.Join(paths, ", "))
	}
	return fmt.Sprintf("the fields are %.200s", strings.Join(slices.Sorted(maps.Keys(fields)), ", "))
}

// firstKeys returns the names of the fields of the object at the start of a text that hold IDs or,
// if none does, of all its fields.
func firstKeys(text string) []string {
	fields := parsed(text)
	if paths := idPaths("", fields); len(paths) > 0 {
		return paths
	}
	return slices.Sorted(maps.Keys(fields))
}

// parsed returns the fields of the object at the start of a text. If the object is cut off, it
// returns the fields before the cut.
func parsed(text string) (fields map[string]json.RawMessage) {
	_ = json.NewDecoder(strings.NewReader(text)).Decode(&fields)
	return fields
}

// looksLikeID reports whether a value looks like an ID: a number that is greater than a time in
// milliseconds, or a text with a digit.
func looksLikeID(value string) bool {
	if isNumber(value) {
		return len(value) >= len("1700000000000")+2
	}
	return len(value) >= shortestWord && strings.ContainsAny(value, "0123456789") && mayBeID(value)
}

// idPaths returns the paths of the fields that look like IDs, with points between the names.
func idPaths(path string, fields map[string]json.RawMessage) (paths []string) {
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		text := string(fields[name])
		if looksLikeID(texts.Bare(text)) {
			paths = append(paths, path+name)
		} else if text[0] == '{' {
			paths = append(paths, idPaths(path+name+".", parsed(text))...)
		}
	}
	return paths
}
