package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/command"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// An ID of a local copy that has not reported yet does not hide the IDs after it.
func TestIssuersGoOnAfterAnIDThatIsNotReported(t *testing.T) {
	store := lease.File(t.TempDir())
	_, gen := hold(t, store, lease.Options{Owner: "a", Reuse: lease.ReuseKeep, LocalCopy: t.TempDir()})
	known, err := gen.NextIDContext(t.Context())
	require.NoError(t, err)
	parts := gen.Decode(known)
	parts.Time = parts.Time.Add(time.Hour)
	notReported, err := snowflake.DefaultLayout().Encode(parts)
	require.NoError(t, err)
	var b strings.Builder
	p := &program{Streams: command.New("", nil, &b, nil, nil)}
	require.ErrorIs(t, p.writeIssuers(t.Context(), store, []snowflake.ID{notReported, known}), errNobody)
	require.NoError(t, p.Out.Flush())
	assert.Regexp(t, `only "?a @.* can have issued it.*\n`+known.String()+` owner="a @`, b.String())
}
