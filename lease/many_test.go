package lease_test

import (
	"flag"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake/internal/depth"
)

var atOnce = flag.Int("at-once", depth.Of(16, 64), "how many processes TestManyProcessesAtOnceGetDifferentWorkerIDs starts, up to 1,024")

// Many processes start at once on a new directory, and later on a directory whose worker IDs are all
// released. Each process gets a worker ID at its first attempt.
func TestManyProcessesAtOnceGetDifferentWorkerIDs(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "leases")
	for _, when := range []string{"new", "released"} {
		var all []*process
		for range *atOnce {
			all = append(all, start(t))
		}
		begun := time.Now()
		for i, p := range all {
			p.begin(task{Dir: dir, Layout: plain, Owner: fmt.Sprint(when, i), Idle: true})
		}
		workers := map[int]bool{}
		var took []time.Duration
		refused := 0
		for i, p := range all {
			r := p.await("acquired", "refused")
			if r.What != "acquired" {
				refused++
				t.Errorf("%d: %s after %v", i, r.Err, r.Took)
				continue
			}
			assert.False(t, workers[r.Worker], "two have worker ID %d", r.Worker)
			workers[r.Worker] = true
			took = append(took, r.Took)
		}
		slices.Sort(took)
		t.Logf("%s: %d processes in %v: median %v, last %v", when, len(all), time.Since(begun), took[len(took)/2], took[len(took)-1])
		require.LessOrEqual(t, refused, 0, "%s: %d of %d were refused", when, refused, len(all))
		for _, p := range all {
			p.release()
		}
		failed := 0
		for _, p := range all {
			if r := p.await("released"); r.Err != "" {
				failed++
				t.Logf("released: %s", r.Err)
			}
			p.wait()
		}
		var cpu time.Duration
		for _, p := range all {
			cpu += p.State().UserTime() + p.State().SystemTime()
		}
		t.Logf("%d releases failed; the processes used %v of a CPU", failed, cpu)
	}
}
