package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/layouts"
)

// A quote that does not belong into a field makes its record a bad one, and hides no others.
func TestAuditOfQuotesWithinFields(t *testing.T) {
	id := newID(t, snowflake.DefaultLayout())
	in := fmt.Sprintf("id,name\n%[1]d,5\" nail\n%[2]d,a\n%[2]d,\"b \"\"\n\"\"\"\n%[3]d,\"6\" nail\n%[3]d,\n", id, id+1, id+2)
	r, status := audited(t, in, "--column", "id")
	assert.Equal(t, exitFailure, status)
	assert.EqualValues(t, 3, r.IDs)
	assert.EqualValues(t, 1, r.Duplicates)
	require.EqualValues(t, 2, r.Unreadable.Count)
	assert.Equal(t, "line 2", r.Unreadable.First[0].At)
	assert.Contains(t, r.Unreadable.First[0].Text, `bare "`)
	assert.Equal(t, "line 6", r.Unreadable.First[1].At)
}

func TestAuditOfNegativeNumbersInAColumn(t *testing.T) {
	r, _ := audited(t, "name,id\nx,-5\n\"y\nz\",\"-7\"\n-5,x\n", "--column", "id")
	require.EqualValues(t, 2, r.BeforeEpoch.Count)
	assert.EqualValues(t, 1, r.Unreadable.Count)
	assert.Equal(t, "-7", r.BeforeEpoch.First[1].Text)
}

// If a bad answer cannot be written, the error says so.
func TestFailingOutputHidesABadAnswersStatus(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer full.Close()
	var errs strings.Builder
	assert.Equal(t, exitFailure, run([]string{"follows", "bwmarrin", "default"}, strings.NewReader(""), full, &errs))
	assert.Contains(t, errs.String(), "no space left")
}

// The advice is right even if the two times are further apart than a Duration can
// hold.
func TestFollowsAdviceIsRightForDistantEpochs(t *testing.T) {
	for _, layout := range []string{"53/0/10", "50/0/10", "45/0/10@2500-01-01"} {
		l, err := parseLayout(layout, func(*snowflake.Layout) {})
		require.NoError(t, err)
		last := snowflake.ID(2064000000000000000) >> max(0, 61-int(l.TimeBits+l.SequenceBits))
		v, err := follows(layouts.Bwmarrin(), l, last)
		require.NoError(t, err)
		require.NotNil(t, v.Epoch, layout)
		l.Epoch = snowflake.EpochAt(v.Epoch.Time)
		assert.NoError(t, l.Follows(layouts.Bwmarrin(), last), "%s with epoch %v", layout, v.Epoch)
		l.Epoch++
		assert.Error(t, l.Follows(layouts.Bwmarrin(), last), "%s with epoch %v", layout, v.Epoch)
	}
}

// JSON output also has times that Go's encoder refuses.
func TestJSONOfTimesAfterTheYear9999(t *testing.T) {
	assert.Contains(t, succeed(t, "layout", "--json", "yitter"), `"expires":"73376-10-30T14:34:47.248Z"`)
	out, _, status := runCLI("decode", "--json", "--layout", "yitter", "9223372036854775807")
	assert.Zero(t, status)
	assert.Contains(t, out, `"time":"73376-10-30T14:34:47.247Z"`)
	out, _, status = runCLI("follows", "--json", "bwmarrin", "53/0/10", "--last", "2064000000000000000")
	assert.Equal(t, exitFailure, status)
	assert.Contains(t, out, `"from":"6`)
}
