// Package randtext returns random texts that do not repeat.
package randtext

import "crypto/rand"

// Len is the number of characters of a text.
const Len = 26

// New returns Len random characters of base 32, with 130 random bits.
func New() string {
	// Since Go 1.24, crypto/rand.Text does the same.
	text := make([]byte, Len)
	if _, err := rand.Read(text); err != nil {
		panic(err) // it does not happen on the systems that Go supports
	}
	for i, b := range text {
		text[i] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"[b%32]
	}
	return string(text)
}
