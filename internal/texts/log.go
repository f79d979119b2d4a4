package texts

import (
	"bytes"
	"slices"

	"github.com/seed-5394e6b1/snowflake"
)

// InLog returns the readings of a word of a log as an ID in another form than decimal digits, the
// likeliest first. A word consists of letters and digits. prefix is the prefix of a typed ID before
// the word, with its underscore, or empty.
//
// Words in base 58 and 62 must have a small letter, a capital and a digit, because other words of
// their length are often names. A word of fewer than 10 characters has no reading, because an ID of
// most layouts is longer in every form.
func InLog(prefix, word []byte) []Reading {
	const small, capital = "abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	switch n := len(word); {
	case n < 10 || n > 20: // most words
	case (word[n-1] == 'L' || word[n-1] == 'n') && len(bytes.TrimLeft(word, "0123456789")) == 1:
		return readAs(string(word), "decimal")
	case word[0] == '0' && word[1] == 'x':
		return readAs(string(word), "hexadecimal")
	case n == 13 && bytes.ContainsAny(word, small):
	case n == 13 && len(prefix) > 0:
		return append(readAs(string(prefix)+string(word), "typed"), readAs(string(word), "base 32")...)
	case n == 13:
		return readAs(string(word), "base 32")
	case (n == 10 || n == 11) && bytes.ContainsAny(word, small) && bytes.ContainsAny(word, capital) && bytes.ContainsAny(word, "0123456789"):
		return readAs(string(word), "base 62", "base 58")
	}
	return nil
}

// readAs reads a text in those of the named forms that it has.
func readAs(text string, names ...string) (all []Reading) {
	for _, name := range names {
		f := forms[slices.IndexFunc(forms, func(f form) bool { return f.name == name })]
		if id, err := f.parse(Bare(text)); err == nil {
			all = append(all, Reading{Form: name, IDs: []snowflake.ID{id}})
		}
	}
	return all
}
