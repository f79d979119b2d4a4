package texts

import (
	"regexp"
	"strings"
)

// Bare returns an ID without the characters that programs print around a number: spaces, quotes,
// the ="5" of spreadsheets, the L of Java and n of JavaScript, Long("5") and {"$numberLong": "5"}
// of MongoDB's programs, and separators between thousands. It returns other texts without the
// spaces and quotes around them.
func Bare(s string) string {
	if isPlain(s) {
		return s
	}
	s = trim(s)
	if quoted, ok := strings.CutPrefix(s, "="); ok && strings.Trim(quoted, quotes) != quoted {
		s = trim(quoted)
	}
	if s == "" {
		return s
	}
	switch s[len(s)-1] {
	case 'L', 'n':
		return whole(suffixed, s)
	case ')':
		return whole(called, s)
	case '}':
		return whole(extended, s)
	}
	if m := grouped.FindStringSubmatch(s); m != nil {
		separator := m[1] + m[2]
		if bare := strings.ReplaceAll(s, separator, ""); only(bare, "0123456789") {
			return bare
		}
	}
	return s
}

// whole returns the number in s if all of s matches, and s otherwise.
func whole(form *regexp.Regexp, s string) string {
	if m := form.FindStringSubmatch(s); m != nil && m[0] == s {
		return m[1]
	}
	return s
}

// BareAll returns a line with each Long("5") and {"$numberLong": "5"} replaced by its number.
func BareAll(line string) string {
	if strings.ContainsAny(line, "({") {
		line = called.ReplaceAllString(line, "$1")
		line = extended.ReplaceAllString(line, "$1")
	}
	return line
}

// Mark is the byte order mark, with which some programs begin a file.
const Mark = "\ufeff"

const quotes = "\"'`"

func trim(s string) string { return strings.Trim(s, " \t\r"+quotes+Mark) }

// isPlain reports whether a text is made of letters and digits, and does not end as a number with a
// suffix does. Most texts are.
func isPlain(s string) bool {
	for i := range len(s) {
		if c := s[i]; !('0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z') {
			return false
		}
	}
	return s != "" && s[len(s)-1] != 'L' && s[len(s)-1] != 'n'
}

var (
	suffixed = regexp.MustCompile(`^([0-9]+)[Ln]$`)
	called   = regexp.MustCompile(`\b(?:new )?(?:Number)?(?:Long|Int64|BigInt|Decimal)(?:\.[a-zA-Z]+)?\(\s*["']?([0-9]+)["']?\s*\)`)
	extended = regexp.MustCompile(`\{\s*["']?\$numberLong["']?\s*:\s*["']?([0-9]+)["']?\s*\}`)

	// A comma, an underscore and an apostrophe separate thousands from a million on. A point and a
	// space may also separate the numbers of an address or a list, so there must be more of them.
	grouped = regexp.MustCompile(`^[0-9]{1,3}(?:([,_'’])[0-9]{3}){2,6}$|^[0-9]{1,3}(?:([. \x{a0}\x{2009}\x{202f}])[0-9]{3}){4,6}$`)
)
