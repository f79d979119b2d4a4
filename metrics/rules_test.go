//go:build unix && go1.25

package metrics_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/follow"
	"github.com/seed-5394e6b1/snowflake/internal/lab/servertest"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/metrics"
)

// promtool runs promtool, the checker of Prometheus.
func promtool(t *testing.T, args ...string) {
	t.Helper()
	cmd := exec.Command(servertest.Program(t, "prometheus", "promtool"), args...)
	out, err := cmd.CombinedOutput()
	assert.NoError(t, err, "%v: %v\n%s", cmd, err, out)
}

func TestAlertRules(t *testing.T) {
	promtool(t, "check", "rules", "rules/snowflake.yml", "rules/snowflaked.yml")
	promtool(t, "test", "rules", "rules/snowflake_test.yml", "rules/snowflake_outage_test.yml", "rules/snowflaked_test.yml")
}

var series = regexp.MustCompile(`\bsnowflake_[a-z_]+`)

// served matches the names of metrics in the source of the server, which is another module.
var served = regexp.MustCompile(`Name: +"(snowflake_(?:server|store)_[a-z_]+)"`)

// serverMetrics returns the names of the server's metrics, or nil outside a clone of the
// repository.
func serverMetrics(t *testing.T) (names []string) {
	t.Helper()
	for _, pattern := range []string{"../server/*.go", "../cmd/snowflaked/*.go"} {
		files := servertest.Must(filepath.Glob(pattern))(t)
		for _, file := range files {
			b := servertest.Must(os.ReadFile(file))(t)
			for _, m := range served.FindAllSubmatch(b, -1) {
				names = append(names, string(m[1]))
			}
		}
	}
	return names
}

// own returns the names of the metrics of this module's collectors.
func own(t *testing.T) map[string]float64 {
	t.Helper()
	f := servertest.Must(follow.NewFence(follow.SQLite, "fence"))(t)
	reader := servertest.Must(metrics.NewReader(follow.NewReader(lease.File(t.TempDir()), nil, f, 0, nil), nil))(t)
	all := gathered(t, leased(t))
	maps.Copy(all, gathered(t, reader))
	return all
}

// known returns the names of metrics in a text, and fails the test if neither a collector nor the
// server has one of them.
func known(t *testing.T, where, text string) []string {
	t.Helper()
	all, server := own(t), serverMetrics(t)
	used := series.FindAllString(text, -1)
	for _, name := range used {
		if strings.HasPrefix(name, "snowflake_server_") || strings.HasPrefix(name, "snowflake_store_") {
			name = strings.TrimSuffix(strings.TrimSuffix(name, "_count"), "_bucket")
			if server != nil {
				assert.Contains(t, server, name, where)
			}
		} else {
			assert.Contains(t, all, name, where)
		}
	}
	return used
}

func TestRulesNameOnlyExistingMetrics(t *testing.T) {
	for _, file := range []string{"rules/snowflake.yml", "rules/snowflaked.yml"} {
		b := servertest.Must(os.ReadFile(file))(t)
		// The first line names a file.
		_, rules, _ := strings.Cut(string(b), "groups:")
		assert.NotEmpty(t, known(t, file, rules), "%s: there is no metric in the rules", file)
	}
}

func TestPackageDocListsAllMetrics(t *testing.T) {
	b := servertest.Must(os.ReadFile("metrics.go"))(t)
	doc, _, _ := strings.Cut(string(b), "package metrics")
	got := slices.Sorted(slices.Values(known(t, "the doc", doc)))
	want := slices.Sorted(maps.Keys(own(t)))
	assert.Equal(t, want, got)
}

func TestServersPageListsAllMetrics(t *testing.T) {
	all := serverMetrics(t)
	if all == nil {
		t.Skip("the server is another module, which is not here")
	}
	b := servertest.Must(os.ReadFile("../server/README.md"))(t)
	var listed []string
	for _, m := range regexp.MustCompile("(?m)^\\| `(snowflake_[a-z_]+)`").FindAllSubmatch(b, -1) {
		listed = append(listed, string(m[1]))
	}
	assert.ElementsMatch(t, all, listed, "the table under Watch in server/README.md")
}

// Each field of the statistics has a metric.
func TestCollectSendsEachField(t *testing.T) {
	for _, of := range []struct {
		file  string
		name  string // in Collect
		stats any
	}{
		{"metrics.go", "s", snowflake.Stats{}}, {"metrics.go", "s.Refused", snowflake.Stats{}.Refused},
		{"metrics.go", "l", lease.Stats{}}, {"metrics.go", "l.Clock", lease.ClockSync{}}, {"reader.go", "s", follow.Stats{}},
	} {
		b := servertest.Must(os.ReadFile(of.file))(t)
		for _, field := range reflect.VisibleFields(reflect.TypeOf(of.stats)) {
			read := regexp.MustCompile(`\b` + regexp.QuoteMeta(of.name+"."+field.Name) + `\b`)
			assert.True(t, read.Match(b), "%s: Collect sends no metric of %T.%s", of.file, of.stats, field.Name)
		}
	}
}

type panel struct {
	ID      int
	Type    string
	Title   string
	GridPos struct{ H, W, X, Y int }
	Targets []struct{ RefID, Expr, LegendFormat string }
}

var (
	matched = regexp.MustCompile(`(\w+) *(?:=~|!~|!=|=) *"`)
	grouped = regexp.MustCompile(`\b(?:by|on|without|ignoring) *\(([^)]*)\)`)
	legend  = regexp.MustCompile(`\{\{ *(\w+) *\}\}`)
)

// labels returns the labels in a query and its legend.
func labels(expr, format string) (all []string) {
	for _, m := range append(matched.FindAllStringSubmatch(expr, -1), legend.FindAllStringSubmatch(format, -1)...) {
		all = append(all, m[1])
	}
	for _, m := range grouped.FindAllStringSubmatch(expr, -1) {
		for name := range strings.SplitSeq(m[1], ",") {
			all = append(all, strings.TrimSpace(name))
		}
	}
	return all
}

func TestDashboardQueriesAreValid(t *testing.T) {
	b := servertest.Must(os.ReadFile("dashboard.json"))(t)
	var d struct {
		Title, UID string
		Panels     []panel
		Templating struct {
			List []struct{ Name, Definition string }
		}
	}
	require.NoError(t, json.Unmarshal(b, &d))
	require.NotEmpty(t, d.Title)
	require.NotEmpty(t, d.UID)
	require.NotEmpty(t, d.Panels)
	// Possible values of Grafana's variables.
	values := strings.NewReplacer("$__rate_interval", "5m", "$job", ".*", "$instance", ".*")
	var rules strings.Builder
	rules.WriteString("groups:\n- name: dashboard\n  rules:\n")
	shown := map[string]bool{}
	// Prometheus sets the first two; Options.Labels names the next three, and the error is a
	// refusal's; the others are the server's.
	has := []string{"job", "instance", "generator", "datacenter", "fleet", "error", "method", "code", "le",
		"client", "state", "version", "files", "table", "worker", "owner", "host"}
	ids, taken := map[int]bool{}, map[[2]int]string{}
	for _, p := range d.Panels {
		assert.False(t, ids[p.ID], "two panels have the ID %d", p.ID)
		ids[p.ID] = true
		assert.True(t, p.Type == "row" || len(p.Targets) > 0, "panel %q shows nothing", p.Title)
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				require.Empty(t, taken[[2]int{x, y}], "panel %q lies on it", p.Title)
				require.Less(t, x, 24, "panel %q lies outside", p.Title)
				taken[[2]int{x, y}] = p.Type + " " + p.Title
			}
		}
		for _, q := range p.Targets {
			for _, name := range known(t, p.Title, q.Expr) {
				shown[name] = true
			}
			assert.Subset(t, has, labels(q.Expr, q.LegendFormat), "labels of panel %q", p.Title)
			expr := values.Replace(q.Expr)
			assert.NotContains(t, expr, "$", "panel %q has a variable that the dashboard does not set: %s", p.Title, expr)
			quoted := servertest.Must(json.Marshal(expr))(t)
			fmt.Fprintf(&rules, "  - record: panel%d%s\n    expr: %s\n", p.ID, q.RefID, quoted)
		}
	}
	for _, name := range serverMetrics(t) {
		assert.True(t, shown[name] || shown[name+"_count"], "%s is on no panel", name)
	}
	for name := range own(t) {
		assert.True(t, shown[name] || name == "snowflake_lease_ended", "%s is on no panel", name)
	}
	for _, v := range d.Templating.List {
		known(t, v.Name, v.Definition)
		assert.Subset(t, has, labels(v.Definition, ""), "variable %s", v.Name)
	}
	path := filepath.Join(t.TempDir(), "dashboard.yml")
	require.NoError(t, os.WriteFile(path, []byte(rules.String()), 0o600))
	promtool(t, "check", "rules", path)
}
