package scale

import (
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/depth"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// With package hostlease, 2^20 processes ask their hosts, and only the keepers of 62,500 hosts ask the fleet's store:
// less than 7,000 times a second, with windows of 30 s.
func TestHostsOfAMillionProcesses(t *testing.T) {
	hosts := depth.Of(625, 62_500)
	synctest.Test(t, func(t *testing.T) {
		const window = 30 * time.Second
		s := newServer()
		layout := snowflake.Layout{Epoch: snowflake.UnixEpoch, Unit: 10 * time.Millisecond, TimeBits: 38, WorkerBits: 17, SequenceBits: 3}
		leases, errs := make([]*lease.Lease, hosts), make([]error, hosts)
		var wg sync.WaitGroup
		for i := range hosts {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * window / time.Duration(hosts)) // the fleet starts in the course of a window
				leases[i], errs[i] = lease.Acquire(t.Context(), s, &lease.Options{Layout: layout, Window: window, Count: 2 * hosts, Owner: fmt.Sprint("host-", i),
					NewStore: true, Logger: slog.New(slog.DiscardHandler)})
			})
		}
		wg.Wait()
		for _, err := range errs {
			require.NoError(t, err)
		}
		time.Sleep(window)
		s.mu.Lock()
		begun := len(s.asked)
		s.mu.Unlock()
		time.Sleep(2 * window)
		s.mu.Lock()
		rate := float64(len(s.asked)-begun) / (2 * window).Seconds()
		s.mu.Unlock()
		t.Logf("%d hosts ask the store %.0f times a second", hosts, rate)
		require.Less(t, rate, 7000*float64(hosts)/62_500)
		require.Greater(t, rate, 6000*float64(hosts)/62_500)
		end(s, leases, false)
		time.Sleep(window) // leases give back what they took
	})
}
