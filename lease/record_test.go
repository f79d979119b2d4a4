//go:build go1.25

package lease

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/seed-5394e6b1/snowflake/lease/internal/protocol"
)

// One clock that is wrong makes no live holder look dead.
func TestEnginesClockAloneTakesNobodyForDead(t *testing.T) {
	r := rec("a", StateHeld, 3)
	r.Renewed = at(0)
	for _, test := range []struct {
		own, engine int
		dead        bool
	}{{1, 1, false}, {1, 3600, false}, {3600, 1, false}, {3, 3, false}, {3, 4, true}, {3600, 3600, true}} {
		w := watch{seen: newSightings()}
		silent := w.silent(r, thisMoment(), protocol.Clocks{Own: at(test.own), Engine: at(test.engine)})
		assert.Equal(t, !test.dead, r.Live(silent), "%+v", test)
	}
}
