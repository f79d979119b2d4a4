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
	"github.com/seed-5394e6b1/snowflake/internal/command"
	"github.com/seed-5394e6b1/snowflake/internal/texts"
	"github.com/seed-5394e6b1/snowflake/opaque"
)

// keyFile decodes opaque texts or opaque numbers with the keys of a file.
type keyFile struct {
	path, purpose string
	ints          bool // decode numbers
}

// opaqueTail returns the part after the prefix of a text that may be opaque, and otherwise "".
func opaqueTail(s string) string {
	if tail := s[strings.LastIndexByte(s, '_')+1:]; len(tail) == 22 || len(tail) == 26 {
		return tail
	}
	return ""
}

// read returns the readings of a text. With a file, a text may be opaque.
func (k keyFile) read(text string) ([]texts.Reading, error) {
	switch {
	case k.path != "" && k.ints:
		return k.readInt(text)
	case k.path != "" && opaqueTail(text) != "":
		id, err := k.readText(text)
		return []texts.Reading{{Form: "opaque", IDs: []snowflake.ID{id}}}, err
	}
	return texts.IDs([]string{text})
}

func (k keyFile) readText(text string) (snowflake.ID, error) {
	keys, err := k.keys()
	if err != nil {
		return 0, err
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

// readInt returns a reading for each key, because a number does not show its key.
func (k keyFile) readInt(text string) (all []texts.Reading, err error) {
	keys, err := k.keys()
	if err != nil {
		return nil, err
	}
	n, err := snowflake.ParseID(texts.Bare(text))
	if err != nil {
		return nil, err
	}
	for i, key := range keys {
		codec, err := opaque.New(key, k.purpose)
		if err != nil {
			return nil, err
		}
		id, err := codec.DecodeInt(int64(n))
		if err != nil {
			return nil, err
		}
		form := "opaque number"
		if len(keys) > 1 {
			form += fmt.Sprintf(" of key %d", i+1)
		}
		all = append(all, texts.Reading{Form: form, IDs: []snowflake.ID{id}})
	}
	return all, nil
}

// keys returns the keys of the file, the newest first.
func (k keyFile) keys() ([][]byte, error) {
	b, err := os.ReadFile(k.path)
	if err != nil {
		return nil, command.Failed(err)
	}
	keys, err := parseKeys(b)
	if err != nil {
		err = fmt.Errorf("%s: %w", k.path, err)
	}
	return keys, err
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
