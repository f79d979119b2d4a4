package command

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var noon = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

// On a terminal, a long input shows its progress, which is erased at the end.
func TestProgress(t *testing.T) {
	var errs strings.Builder
	clock := noon
	p := &progress{in: strings.NewReader(strings.Repeat("x", 4_000_000)), err: &errs, total: 4_000_000, now: func() time.Time {
		clock = clock.Add(300 * time.Millisecond)
		return clock
	}}
	for range 6 {
		_, err := p.Read(make([]byte, 500_000))
		require.NoError(t, err)
	}
	p.end()
	assert.Equal(t, "\r\x1b[K2.5 MB of 4.0 MB, 2.1 MB/s, 1s left"+"\r\x1b[K", errs.String())

	errs.Reset()
	p = &progress{in: strings.NewReader(strings.Repeat("x", 4_000_000)), err: &errs, now: func() time.Time { return noon }}
	_, err := io.ReadAll(p)
	require.NoError(t, err)
	p.end()
	assert.Empty(t, errs.String(), "it took less than a second")
}
