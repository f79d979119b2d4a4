//go:build unix

package serverbench

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// turn is the duration of the load on one server before it changes to the other.
const turn = 100 * time.Millisecond

// BenchmarkOverhead loads snowflaked and a handler that returns a constant, in turns. It reports
// the ratio of snowflaked's processor time for a request to the constant's, and the ratio of the
// constant's requests a second to snowflaked's. The client uses most of the processors in both
// cases, so the second ratio is closer to 1.
func BenchmarkOverhead(b *testing.B) {
	for _, accessLog := range []bool{false, true} {
		b.Run(fmt.Sprintf("access-log=%t", accessLog), func(b *testing.B) {
			constant := newContender(b, startConstant(b))
			ours := newContender(b, startSnowflaked(b, fmt.Sprintf("--access-log=%t", accessLog)))
			order := []*contender{constant, ours}
			for b.Loop() {
				for range max(1, *loadTime/turn) {
					order[0].take(b, turn)
					order[1].take(b, turn)
					slices.Reverse(order)
				}
			}
			b.ReportMetric(ours.cost()/constant.cost(), "cpu-ratio")
			b.ReportMetric(constant.rate()/ours.rate(), "rate-ratio")
			b.ReportMetric(ours.cost(), "cpu-ns/request")
			b.ReportMetric(constant.cost(), "cpu-ns/constant")
			b.ReportMetric(ours.rate(), "requests/s")
			b.ReportMetric(constant.rate(), "constants/s")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// contender is a server with the results of its turns.
type contender struct {
	web
	client    *http.Client
	calls     int64
	cpu, took time.Duration
}

func newContender(b *testing.B, s web) *contender {
	c := &contender{web: s, client: keepAlive(b)}
	c.take(b, turn) // connects
	c.calls, c.cpu, c.took = 0, 0, 0
	return c
}

// take loads the server for a turn.
func (c *contender) take(b *testing.B, turn time.Duration) {
	used, begun := c.CPU(), time.Now()
	calls, err := during(workers, turn, func() error {
		_, err := fetch(context.Background(), c.client, c.url()+"/id")
		return err
	})
	require.NoError(b, err)
	c.took += time.Since(begun)
	c.cpu += c.CPU() - used
	c.calls += calls
}

// cost returns the processor time of a request, in ns.
func (c *contender) cost() float64 { return float64(c.cpu.Nanoseconds()) / float64(c.calls) }

// rate returns the requests a second.
func (c *contender) rate() float64 { return float64(c.calls) / c.took.Seconds() }
