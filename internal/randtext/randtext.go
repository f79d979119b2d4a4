// Package randtext makes texts that nobody has had before.
package randtext

import "crypto/rand"

// Len is the length of a text.
const Len = 26

// New returns Len random letters and digits of base 32, which are 130 bits.
func New() string {
	// crypto/rand.Text does the same, from Go 1.24 on.
	text := make([]byte, Len)
	if _, err := rand.Read(text); err != nil {
		panic(err) // no system that Go supports lets it happen
	}
	for i, b := range text {
		text[i] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"[b%32]
	}
	return string(text)
}
