package server

import (
	"mime"
	"net/http"
	"regexp"
	"strconv"
)

// wantsText reports whether the client prefers text/plain to application/json, by RFC 9110, section
// 12.5.1. JSON wins if the client has no preference, and if it accepts neither.
func wantsText(r *http.Request) bool {
	accept := r.Header["Accept"]
	if len(accept) == 0 || len(accept) == 1 && (accept[0] == "*/*" || accept[0] == "application/json" || accept[0] == "text/plain") {
		return len(accept) == 1 && accept[0] == "text/plain" // most requests
	}
	qualities := map[string]float64{}
	for _, header := range accept {
		for _, element := range mediaRange.FindAllString(header, -1) {
			kind, params, err := mime.ParseMediaType(element)
			q, ok := quality(params["q"])
			if before, known := qualities[kind]; err == nil && ok && (!known || q > before) {
				qualities[kind] = q
			}
		}
	}
	return preference(qualities, "text/plain", "text/*", "*/*") > preference(qualities, "application/json", "application/*", "*/*")
}

// mediaRange matches an element of the header. Quoted commas do not separate elements.
var mediaRange = regexp.MustCompile(`([^,"]|"([^"\\]|\\.)*"?)+`)

// preference returns the quality of the first of the ranges that the client names, -1 if that is
// q=0, a refusal, and 0 if the client names none.
func preference(qualities map[string]float64, ranges ...string) float64 {
	for _, r := range ranges {
		if q, ok := qualities[r]; ok {
			if q == 0 {
				return -1
			}
			return q
		}
	}
	return 0
}

// quality parses the parameter q. The default is 1.
func quality(text string) (float64, bool) {
	if text == "" {
		return 1, true
	}
	q, err := strconv.ParseFloat(text, 64)
	return q, err == nil && q >= 0 && q <= 1
}
