package randtext_test

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake/internal/randtext"
)

func TestTextsAreNew(t *testing.T) {
	form, seen, letters := regexp.MustCompile(`^[A-Z2-7]{26}$`), map[string]bool{}, map[rune]bool{}
	require.Equal(t, 26, randtext.Len)
	for range 1000 {
		text := randtext.New()
		require.Regexp(t, form, text)
		require.False(t, seen[text])
		seen[text] = true
		for _, letter := range text {
			letters[letter] = true
		}
	}
	require.Len(t, letters, 32)
}
