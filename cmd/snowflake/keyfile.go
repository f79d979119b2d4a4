package main

import (
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/opaque"
)

// keyFile reads opaque texts with the keys of a file.
type keyFile struct{ path, purpose string }

// opaqueTail returns the part of a text that may be of package opaque, after the prefix, or "".
func opaqueTail(s string) string {
	if tail := s[strings.LastIndexByte(s, '_')+1:]; len(tail) == 22 || len(tail) == 26 {
		return tail
	}
	return ""
}

func (k keyFile) decode(text string) (snowflake.ID, error) {
	b, err := os.ReadFile(k.path)
	if err != nil {
		return 0, failed(err)
	}
	keys, err := parseKeys(b)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", k.path, err)
	}
	prefix := strings.TrimSuffix(strings.TrimSuffix(text, opaqueTail(text)), "_")
	purpose := cmp.Or(k.purpose, prefix)
	if purpose == "" {
		return 0, errors.New("the text has no prefix: name the purpose of its codec with --purpose")
	}
	codec, err := opaque.New(keys[0], purpose, keys[1:]...)
	if err == nil && prefix != "" {
		codec, err = codec.WithPrefix(strings.ToLower(prefix))
	}
	if err != nil {
		return 0, err
	}
	id, err := codec.Decode(text)
	if err != nil {
		err = fmt.Errorf("%w; the purpose was %q", err, purpose)
	}
	return id, err
}

// parseKeys reads a key of 32 bytes, or keys in hexadecimal or base 64, one a line.
func parseKeys(b []byte) (keys [][]byte, err error) {
	if len(b) == opaque.KeySize {
		return [][]byte{b}, nil
	}
	for i, word := range strings.Fields(string(b)) {
		key, err := hex.DecodeString(word)
		if err != nil {
			key, err = base64.RawStdEncoding.DecodeString(strings.NewReplacer("-", "+", "_", "/", "=", "").Replace(word))
		}
		if err != nil || len(key) != opaque.KeySize {
			// The error does not show the word, which is a secret.
			return nil, fmt.Errorf("key %d is not %d bytes in hexadecimal or base 64", i+1, opaque.KeySize)
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, errors.New("the file has no key")
	}
	return keys, nil
}
