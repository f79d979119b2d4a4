//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package lease_test

import (
	"flag"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

var atOnce = flag.Int("at-once", 64, "how many processes TestManyProcessesAtOnce starts, up to 1,024")

// Many processes start at once on a directory that is new, and on one that all of
// them have released. Each gets a worker ID, the first time it asks.
func TestManyProcessesAtOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "leases")
	for _, when := range []string{"new", "released"} {
		var all []*process
		for range *atOnce {
			all = append(all, start(t))
		}
		begun := time.Now()
		for i, p := range all {
			p.begin(task{Dir: dir, Layout: plain, Owner: fmt.Sprint(when, i), Obey: true})
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
		if refused > 0 {
			t.Fatalf("%s: %d of %d were refused", when, refused, len(all))
		}
		for _, p := range all {
			p.tell(cmdRelease)
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
			cpu += p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime()
		}
		t.Logf("%d releases failed; the processes used %v of a CPU", failed, cpu)
	}
}
