package depth_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/seed-5394e6b1/snowflake/internal/lab/depth"
)

func TestFullFollowsTheVariable(t *testing.T) {
	for value, full := range map[string]bool{"": false, "0": false, "1": true, "true": true} {
		t.Setenv("SNOWFLAKE_FULL", value)
		assert.Equal(t, full, depth.Full(), "%q", value)
		assert.Equal(t, map[bool]int{false: 2, true: 20}[full], depth.Of(2, 20), "%q", value)
		t.Run("NeedFull", func(t *testing.T) {
			t.Cleanup(func() { assert.Equal(t, !full, t.Skipped(), "%q", value) })
			depth.NeedFull(t, "many seeds")
		})
	}
}
