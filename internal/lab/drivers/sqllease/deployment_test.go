//go:build unix

package sqllease_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/lab/depth"
	"github.com/seed-5394e6b1/snowflake/internal/lab/servertest"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/sqllease"
)

// podEnv tells a child that it is a pod, and which.
const podEnv = "SQLLEASE_POD"

type pod struct {
	Addr, Space, Owner string
	FloorEvery         time.Duration
}

// run holds a worker ID and issues IDs until SIGTERM, and then releases it.
func (p pod) run() error {
	servertest.EndWithParent()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	store, end, err := opener(sqllease.PostgreSQL)(p.Addr, p.Space)
	if err != nil {
		return err
	}
	defer end()
	l, err := lease.Acquire(ctx, store, &lease.Options{
		Owner:      p.Owner,
		FloorEvery: p.FloorEvery,
		Logger:     slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	g, err := snowflake.NewLeased(l, nil)
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		id, err := g.NextID()
		if err != nil {
			return err
		}
		if err = servertest.WriteIDs(id); err != nil {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
	return l.Release(context.Background())
}

// runPod is the child's main function.
func runPod(spec string) {
	var p pod
	err := json.Unmarshal([]byte(spec), &p)
	if err == nil {
		err = p.run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Processes with windows of 30 s are replaced one after the other, and then more and more start,
// while the watermark is read twice a second.
func TestDeploymentAndGrowthKeepNoReaderBack(t *testing.T) {
	depth.Parallel(t)
	s := startPostgres(t)
	starts := depth.Of(4, 30)
	rollouts := depth.Of([]rollout{{time.Second, time.Second}}, []rollout{
		{time.Second, time.Second}, {time.Second, 5 * time.Second}, {0, time.Second}, {0, 5 * time.Second}})
	for i, r := range rollouts {
		t.Run(fmt.Sprintf("FloorEvery=%v/pause=%v", r.floor, r.pause), func(t *testing.T) {
			space := fmt.Sprint("deployment", i)
			store, end, err := opener(sqllease.PostgreSQL)(s.addr, space)
			require.NoError(t, err)
			t.Cleanup(func() { _ = end() })
			require.NoError(t, lease.Init(t.Context(), store, snowflake.DefaultLayout()))
			r.run(t, store, pod{Addr: s.addr, Space: space, FloorEvery: r.floor}, starts)
		})
	}
}

// rollout is a deployment, and growth after it.
type rollout struct{ floor, pause time.Duration }

func (r rollout) run(t *testing.T, store lease.Store, p pod, starts int) {
	var all []*servertest.Child
	begins := func() {
		p.Owner = fmt.Sprint("pod-", len(all))
		spec := servertest.Must(json.Marshal(p))(t)
		c := servertest.StartChild(t, podEnv+"="+string(spec))
		go func() {
			for line := range c.Lines {
				t.Log(line)
			}
		}()
		all = append(all, c)
	}
	ends := func(c *servertest.Child) {
		require.NoError(t, c.Process().Signal(syscall.SIGTERM))
		c.Wait()
		require.True(t, c.State().Success(), c.State())
	}
	for range starts {
		begins()
	}
	for _, c := range all {
		<-c.First
	}
	var lag time.Duration
	layout, reader := snowflake.DefaultLayout(), lease.NewWatermarkReader(store)
	reads := func(d time.Duration) {
		for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(500 * time.Millisecond) {
			mark, err := reader.Read(t.Context())
			require.NoError(t, err)
			lag = max(lag, time.Since(layout.Decode(mark.ID+1).Time))
			if r.floor > 0 {
				assert.Nil(t, mark.HeldBy, mark.Why)
			}
		}
	}
	reads(12 * time.Second) // until all have noticed that somebody reads
	lag = 0
	for i := range starts {
		ends(all[i])
		begins()
		reads(r.pause)
	}
	deployment := lag
	lag = 0
	for range starts {
		begins()
		reads(r.pause)
	}
	reads(3 * time.Second)
	most := 20 * time.Second
	if r.floor > 0 {
		most = r.floor + 3*time.Second
	}
	t.Logf("at most %v behind during a deployment, and %v during growth", deployment, lag)
	assert.Less(t, max(deployment, lag), most)
}
