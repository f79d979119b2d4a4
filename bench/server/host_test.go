//go:build unix

package serverbench

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake/server/client"
)

// hostProcesses is how many processes BenchmarkHost has beside the server.
const hostProcesses = 32

// The environment of a process of BenchmarkHost.
const (
	hostURL = "SNOWFLAKE_BENCH_HOST_URL" // of the server

	// Calls a second; 0: each call begins when the one before has ended.
	hostRate = "SNOWFLAKE_BENCH_HOST_RATE"

	hostWhile = "SNOWFLAKE_BENCH_HOST_WHILE" // how long they call
)

// hostRun is the result of a process.
type hostRun struct {
	IDs  int64
	Took []time.Duration // empty if the rate is 0
}

// BenchmarkHost measures a host on which many processes get IDs from one snowflaked, each with a
// client of package server/client and its defaults. If they call at a rate, a latency counts from
// the time at which the call should have begun.
func BenchmarkHost(b *testing.B) {
	for _, rate := range []int{100, 1000, 0} {
		b.Run(fmt.Sprintf("processes=%d/rate=%d", hostProcesses, rate), func(b *testing.B) {
			var all hostRun
			for b.Loop() {
				for _, r := range runHost(b, rate) {
					all.IDs += r.IDs
					all.Took = append(all.Took, r.Took...)
				}
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(all.IDs)/float64(b.N)/loadTime.Seconds(), "IDs/s")
			if rate > 0 {
				reportLatencies(b, all.Took)
				b.ReportMetric(float64(slices.Max(all.Took)), "max-ns")
			}
		})
	}
}

// runHost runs the processes once.
func runHost(b *testing.B, rate int) []hostRun {
	path, err := os.Executable()
	require.NoError(b, err)
	url := snowflaked(b).url()
	commands, begin, answers := make([]*exec.Cmd, hostProcesses), make([]io.Closer, hostProcesses), make([]*bufio.Reader, hostProcesses)
	for i := range commands {
		c := exec.Command(path, "-test.run", "^TestProcessOfHost$")
		c.Env = append(os.Environ(), hostURL+"="+url, hostRate+"="+strconv.Itoa(rate), hostWhile+"="+loadTime.String())
		c.Stderr = os.Stderr
		begin[i], err = c.StdinPipe()
		require.NoError(b, err)
		out, err := c.StdoutPipe()
		require.NoError(b, err)
		answers[i] = bufio.NewReader(out)
		require.NoError(b, c.Start())
		defer c.Process.Kill()
		commands[i] = c
	}
	for _, a := range answers { // each process is ready
		line, err := a.ReadString('\n')
		require.NoError(b, err, line)
	}
	for _, c := range begin {
		require.NoError(b, c.Close())
	}
	runs := make([]hostRun, hostProcesses)
	require.NoError(b, together(hostProcesses, func(i int) error {
		line, err := answers[i].ReadBytes('\n')
		if err != nil {
			return err
		}
		if err := json.Unmarshal(line, &runs[i]); err != nil {
			return fmt.Errorf("%w: %s", err, line)
		}
		_, _ = io.Copy(io.Discard, answers[i])
		return commands[i].Wait()
	}))
	return runs
}

// TestProcessOfHost is a process of BenchmarkHost.
func TestProcessOfHost(t *testing.T) {
	if os.Getenv(hostURL) == "" {
		t.Skip("BenchmarkHost runs it")
	}
	rate, err := strconv.Atoi(os.Getenv(hostRate))
	require.NoError(t, err)
	while, err := time.ParseDuration(os.Getenv(hostWhile))
	require.NoError(t, err)
	c, err := client.New(os.Getenv(hostURL), nil)
	require.NoError(t, err)
	defer c.Close()
	do := func() error { _, err := c.NextIDContext(context.Background()); return err }
	require.NoError(t, do()) // connects
	sleep := newSleep(t)
	fmt.Println("ready")
	_, _ = io.Copy(io.Discard, os.Stdin) // ends when all processes are ready
	var r hostRun
	if rate == 0 {
		r.IDs, err = during(1, while, do)
	} else {
		r.Took, err = load(float64(rate), while, []func(time.Duration){sleep}, do)
		r.IDs = int64(len(r.Took))
	}
	require.NoError(t, err)
	require.NoError(t, json.NewEncoder(os.Stdout).Encode(r))
}
