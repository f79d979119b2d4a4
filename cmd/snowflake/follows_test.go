package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestFollowsSaysYes(t *testing.T) {
	const last = "1541815603606036480"
	assert.Equal(t, `yes: every ID of NEW is greater than every ID of OLD
  The last ID of OLD is 1541815603606036480. It is stamped 2022-06-28T16:07:40.105Z; its tick ends at 2022-06-28T16:07:40.106Z.
  The tick of NEW at that time begins with 1541815603608682496, which is greater.
  Each later tick of NEW begins with a greater ID.
`, succeed(t, "follows", "twitter", "bwmarrin", "--last", last))
	succeed(t, "follows", "twitter", "bwmarrin")
	succeed(t, "follows", "twitter", "41/10/12@2010-11-01", "--until", "2030-01-01")
	succeed(t, "follows", "sonyflake", "39/8/16@1409529600000,10ms")
}

func TestFollowsSaysNo(t *testing.T) {
	out, errs, status := runCLI("follows", "bwmarrin", "default", "--last", "2064000000000000000")
	assert.Equal(t, exitFailure, status)
	assert.Empty(t, errs)
	assert.Equal(t, `no: an ID of NEW can equal an ID of OLD, or be less
  OLD has issued 2064000000000000000, stamped 2026-06-08T15:02:01.922Z.
  NEW can issue 57484286562926592, at 2026-06-08T15:02:01.923Z, which is not greater.
  NEW follows if it begins at 2041-08-05T13:19:07.266Z or later.
  With its epoch at 2010-11-04T01:42:54.657Z (1288834974657) or earlier, NEW follows at once.
`, out)

	// The epoch that it advises works, and a later epoch does not.
	for epoch, want := range map[string]int{"1288834974657": exitOK, "1288834974658": exitFailure} {
		_, _, status = runCLI("follows", "bwmarrin", "default@"+epoch, "--last", "2064000000000000000")
		assert.Equal(t, want, status, epoch)
	}
	out, _, status = runCLI("follows", "bwmarrin", "default", "--last", "2064000000000000000", "--json")
	assert.Equal(t, exitFailure, status)
	assert.Contains(t, out, `{"follows":false,"last":{"id":"2064000000000000000","time":"2026-06-08T15:02:01.922Z"},"first":`)

	// Baidu's layout has used all 63 bits: nothing is greater.
	out, _, status = runCLI("follows", "baidu", "default")
	assert.Equal(t, exitFailure, status)
	assert.Equal(t, 3, strings.Count(out, "\n"), out)
}

func TestFollowsRefusesInput(t *testing.T) {
	for args, names := range map[string]string{
		"follows":                                             "received 0",
		"follows default":                                     "received 1",
		"follows default twitr":                               `"twitr"`,
		"follows default default@x":                           `"x"`,
		"follows default default@5,x":                         `"x"`,
		"follows default default@5,0s":                        "unit 0s",
		"follows default default --last x":                    `"x"`,
		"follows jssafe default --last 9007199254740992":      "9007199254740992",
		"follows default default --until soon":                `"soon"`,
		"follows default default --until 2025-01-01":          "2026-01-01",
		"follows default baidu":                               "when the new layout would begin",
		"follows default default --last 5 --until 2030-01-01": "[last until]",
	} {
		out, errs, status := runCLI(strings.Fields(args)...)
		assert.Equal(t, exitUsage, status, args)
		assert.Empty(t, out)
		requireOneLine(t, errs)
		assert.Contains(t, errs, names)
	}
}
