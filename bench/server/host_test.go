//go:build unix

package serverbench

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake/internal/lab/servertest"
	"github.com/seed-5394e6b1/snowflake/server/client"
)

// hostProcesses is the number of client processes in BenchmarkHost.
const hostProcesses = 32

// The environment of a process of BenchmarkHost.
const (
	hostURL = "SNOWFLAKE_BENCH_HOST_URL" // of the server

	// Calls a second; 0 means calls without pauses.
	hostRate = "SNOWFLAKE_BENCH_HOST_RATE"

	hostWhile = "SNOWFLAKE_BENCH_HOST_WHILE" // the duration of the load
)

// hostRun is the result of a process.
type hostRun struct {
	IDs  int64
	Took []time.Duration // empty if the rate is 0
}

// BenchmarkHost measures a host on which many processes get IDs from one snowflaked, each with a
// client of package server/client and its defaults. At a fixed rate, latency counts from the time
// at which a call should have begun.
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
	children := make([]*servertest.Child, hostProcesses)
	for i := range children {
		children[i] = servertest.StartChild(b, hostURL+"="+snowflaked(b).url(), hostRate+"="+strconv.Itoa(rate), hostWhile+"="+loadTime.String())
		defer children[i].Kill()
	}
	for _, c := range children {
		require.Equal(b, "ready\n", <-c.Lines)
	}
	for _, c := range children {
		require.NoError(b, c.Tell("begin"))
	}
	runs := make([]hostRun, hostProcesses)
	for i, c := range children {
		require.NoError(b, json.Unmarshal([]byte(<-c.Lines), &runs[i]))
	}
	return runs
}

// processOfHost is the main function of a process of BenchmarkHost.
func processOfHost() {
	rate, err := strconv.Atoi(os.Getenv(hostRate))
	check(err)
	while, err := time.ParseDuration(os.Getenv(hostWhile))
	check(err)
	c, err := client.New(os.Getenv(hostURL), nil)
	check(err)
	defer c.Close()
	do := func() error { _, err := c.NextIDContext(context.Background()); return err }
	check(do()) // connects
	sleep := newSleep()
	fmt.Fprintln(os.Stderr, "ready")
	_, err = bufio.NewReader(os.Stdin).ReadString('\n')
	check(err)
	var r hostRun
	if rate == 0 {
		r.IDs, err = during(1, while, do)
	} else {
		r.Took, err = load(float64(rate), while, []func(time.Duration){sleep}, do)
		r.IDs = int64(len(r.Took))
	}
	check(err)
	check(json.NewEncoder(os.Stderr).Encode(r))
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
