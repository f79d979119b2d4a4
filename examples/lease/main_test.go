//go:build go1.25

package main

import (
	"fmt"
	"os/exec"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
)

func TestProgram(t *testing.T) {
	program := exec.Command("go", "run", ".")
	program.Stderr = t.Output()
	out, err := program.Output()
	require.NoError(t, err)
	lines := regexp.MustCompile(`^worker: (\d+)
id:     (\d+) time=\S+ worker=\d+ sequence=\d+
id:     (\d+) time=\S+ worker=\d+ sequence=\d+
id:     (\d+) time=\S+ worker=\d+ sequence=\d+
worker: lease: released
$`).FindStringSubmatch(string(out))
	require.NotNil(t, lines, "%s", out)
	var ids []snowflake.ID
	for _, line := range lines[2:] {
		id, err := snowflake.ParseID(line)
		require.NoError(t, err)
		assert.Equal(t, lines[1], fmt.Sprint(snowflake.Decode(id).Worker))
		ids = append(ids, id)
	}
	assert.IsIncreasing(t, ids)
}
