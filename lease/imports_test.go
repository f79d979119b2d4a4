//go:build go1.25

package lease

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What stands below the lease knows nothing of it.
func TestInternalPackagesDoNotImportTheLease(t *testing.T) {
	const lease = "github.com/seed-5394e6b1/snowflake/lease"
	out, err := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Deps " "}}`, "./driver", "./internal/...", "../internal/times").CombinedOutput()
	require.NoError(t, err, string(out))
	packages := strings.Split(strings.TrimSpace(string(out)), "\n")
	assert.Greater(t, len(packages), 7) // driver, what is in folder internal, and the times
	for _, line := range packages {
		deps := strings.Fields(line)
		assert.NotContains(t, deps, lease, line)
		if deps[0] == lease+"/internal/protocol" {
			assert.NotContains(t, deps, lease+"/internal/machine", "package protocol is pure")
		}
	}
}
