//go:build go1.25

package main

import (
	"bufio"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/layouts"
)

func TestNewPrintsIncreasingIDs(t *testing.T) {
	var last snowflake.ID
	out := lines(succeed(t, "new", "-n", "10000", "--worker", "7"))
	assert.Len(t, out, 10000)
	for _, line := range out {
		id, err := snowflake.ParseID(line)
		require.NoError(t, err)
		require.Greater(t, id, last)
		require.Equal(t, 7, snowflake.Decode(id).Worker)
		last = id
	}
	assert.WithinDuration(t, time.Now(), snowflake.Decode(last).Time, time.Minute)
	assert.Len(t, lines(succeed(t, "new", "-n", "3", "--layout", "41/10/0")), 3, "one ID a tick")
}

func TestNewDecodes(t *testing.T) {
	out := lines(succeed(t, "new", "-n", "3", "--decode", "--layout", "twitter", "--worker", "3", "--datacenter", "4"))
	assert.Len(t, out, 3)
	for _, line := range out {
		assert.Regexp(t, `^\d+ time=\S+ datacenter=4 worker=3 sequence=\d+$`, line)
		text, fields, _ := strings.Cut(line, " ")
		id, err := snowflake.ParseID(text)
		require.NoError(t, err)
		assert.Equal(t, fields, layouts.Twitter().Decode(id).String())
	}
	assert.Regexp(t, `^\{"id":"\d+","form":"decimal",.*\n\{"id":".*\n$`, succeed(t, "new", "-n", "2", "--json"))
}

func TestProcessFollowsItsInputLineByLine(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "snowflake.exe")
	text, err := exec.Command("go", "build", "-o", bin, ".").CombinedOutput()
	require.NoError(t, err, "%s", text)
	cmd := exec.Command(bin, "decode", "-", "--layout", "twitter")
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	r := bufio.NewReader(out)
	for range 3 {
		fmt.Fprintln(in, "line 1541815603606036480")
		line, err := r.ReadString('\n')
		require.NoError(t, err)
		assert.Equal(t, "line 1541815603606036480 (time=2022-06-28T16:07:40.105Z datacenter=11 worker=26 sequence=0)\n", line)
	}
	require.NoError(t, in.Close())
	require.NoError(t, cmd.Wait())
}
