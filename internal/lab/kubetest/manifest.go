//go:build unix && go1.25

package kubetest

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert/yaml"

	"github.com/seed-5394e6b1/snowflake/internal/lab/servertest"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// Pod is the pod template of a Deployment or StatefulSet.
type Pod struct {
	ServiceAccountName            string
	TerminationGracePeriodSeconds int
	Containers                    []struct {
		Image string
		Args  []string
		Env   []struct{ Name, Value string }
		Ports []struct {
			Name          string
			ContainerPort int
		}
		StartupProbe, ReadinessProbe, LivenessProbe Probe
	}
}

// Probe is a probe of the kubelet.
type Probe struct {
	PeriodSeconds, FailureThreshold int
	HTTPGet                         struct{ Path, Port string }
}

// time returns the duration of failures after which the kubelet reacts.
func (p Probe) time() time.Duration {
	return time.Duration(p.PeriodSeconds*p.FailureThreshold) * time.Second
}

// PodOf returns the pod of a manifest.
func PodOf(t testing.TB, manifest []byte) *Pod {
	t.Helper()
	for object := range bytes.SplitSeq(manifest, separator) {
		var fields map[string]any
		var o struct {
			Kind string
			Spec struct{ Template struct{ Spec Pod } }
		}
		err := yaml.Unmarshal(object, &fields)
		text, err2 := json.Marshal(fields)
		servertest.Do(t, err, err2, json.Unmarshal(text, &o))
		if pod := &o.Spec.Template.Spec; len(pod.Containers) > 0 && o.Kind != "Job" {
			return pod
		}
	}
	t.Fatal("the manifest has no pods")
	return nil
}

// Env returns the environment of the first container.
func (p *Pod) Env() map[string]string {
	env := map[string]string{}
	for _, e := range p.Containers[0].Env {
		env[e.Name] = e.Value
	}
	return env
}

// Fits checks that a program has the time to start and to stop. After SIGTERM it serves for drain,
// and ends within stop.
func (p *Pod) Fits(t testing.TB, drain, stop time.Duration) {
	t.Helper()
	c := p.Containers[0]
	if has := time.Duration(p.TerminationGracePeriodSeconds) * time.Second; has <= stop {
		t.Errorf("a pod has %v to stop, and may need %v", has, stop)
	}
	if has := c.StartupProbe.time(); has <= lease.MaxWindow+70*time.Second {
		t.Errorf("the first pod has %v to start, and may need %v and a minute", has, lease.MaxWindow)
	}
	if unready := c.ReadinessProbe.time(); unready >= drain {
		t.Errorf("a pod is known not to be ready after %v, and serves for %v", unready, drain)
	}
}
