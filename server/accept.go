package server

import (
	"mime"
	"net/http"
	"strconv"
	"strings"
)

// wantsText reports whether the client prefers text/plain to application/json, by RFC 9110, section
// 12.5.1. JSON wins if the client has no preference, and if it accepts neither.
func wantsText(r *http.Request) bool {
	accept := r.Header["Accept"]
	if len(accept) == 0 || len(accept) == 1 && (accept[0] == "*/*" || accept[0] == "application/json") {
		return false
	}
	text, json := preference{}, preference{}
	for _, header := range accept {
		for r := range mediaRanges(header) {
			kind, params, err := mime.ParseMediaType(r)
			q, ok := quality(params["q"])
			if err != nil || !ok {
				continue
			}
			text.meet(kind, "text/plain", "text/*", q)
			json.meet(kind, "application/json", "application/*", q)
		}
	}
	return text.value() > json.value()
}

// preference is how much a client prefers a media type: the quality of the most specific range that
// matches it.
type preference struct {
	specific int // 0: no range matches
	quality  float64
}

func (p *preference) meet(kind, full, family string, quality float64) {
	specific := 0
	switch kind {
	case full:
		specific = 3
	case family:
		specific = 2
	case "*/*":
		specific = 1
	}
	if specific > p.specific || specific > 0 && specific == p.specific && quality > p.quality {
		*p = preference{specific, quality}
	}
}

// value is negative for a type that the client refuses with q=0, and 0 for one that it does not
// name.
func (p preference) value() float64 {
	if p.specific > 0 && p.quality == 0 {
		return -1
	}
	return p.quality
}

// quality reads the parameter q. Without it the quality is 1.
func quality(text string) (float64, bool) {
	if text == "" {
		return 1, true
	}
	q, err := strconv.ParseFloat(text, 64)
	return q, err == nil && q >= 0 && q <= 1
}

// mediaRanges returns the elements of a header: a comma separates them unless it is quoted.
func mediaRanges(header string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		quoted, start := false, 0
		for i := 0; i < len(header); i++ {
			switch c := header[i]; {
			case c == '"':
				quoted = !quoted
			case c == '\\' && quoted:
				i++
			case c == ',' && !quoted:
				if !yield(header[start:i]) {
					return
				}
				start = i + 1
			}
		}
		yield(strings.TrimSpace(header[start:]))
	}
}
