//go:build unix && go1.25

package k8slease_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/seed-5394e6b1/snowflake/internal/lab/kubetest"
	"github.com/seed-5394e6b1/snowflake/internal/lab/servertest"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/k8slease"
)

func TestTroublesNeedNoRestart(t *testing.T) {
	t.Parallel()
	c := start(t)
	trusted := filepath.Join(servertest.Dir(t, ""), "ca.crt")
	trust := func(t *testing.T) {
		servertest.Do(t, os.WriteFile(trusted+".new", servertest.Must(os.ReadFile(c.CA))(t), 0o600), os.Rename(trusted+".new", trusted))
	}
	trust(t)
	s := suite(c)
	s.Open = func(addr, space string) (lease.Store, func() error, error) {
		cfg := config(addr, kubetest.Token)
		cfg.TLSClientConfig = rest.TLSClientConfig{CAFile: trusted, ServerName: "kubernetes.default.svc"}
		s, err := k8slease.New(cfg, in(space))
		return s, nil, err
	}
	servertest.Troubles(t, s, servertest.NewHost(t, c.Addr),
		servertest.Trouble{Name: "CertificateIsRenewed", Says: []string{"certificate"},
			Begin: func(t *testing.T, _ string) func(*testing.T) {
				c.Kill()
				servertest.Do(t, os.Remove(c.CA), os.Remove(strings.TrimSuffix(c.CA, ".crt")+".key"))
				c.Restart() // it creates another one
				return trust
			}},
		servertest.Trouble{Name: "AllObjectsAreDeleted", Begin: func(t *testing.T, _ string) func(*testing.T) {
			c.Wipe(t)
			return func(t *testing.T) { c.Namespace(t, "default") }
		}},
	)
}

// In a namespace that is being deleted, the server forbids creation, although no right is missing.
func namespaceEnds(t *testing.T, c *cluster) {
	const namespace = "ends"
	c.Namespace(t, namespace)
	var object meta.PartialObjectMetadata
	// No controller completes the deletion here.
	servertest.Do(t, c.Ask(kubetest.Token, "DELETE", "/api/v1/namespaces/"+namespace, nil, &object))
	s := open(t, c.Addr, &k8slease.Options{Namespace: namespace})
	servertest.Await(t, func() error { // until the server has seen it
		_, err := s.Put(t.Context(), "key/"+servertest.NewSpace(), "", nil)
		if err == nil {
			return errors.New("a Lease was created")
		}
		require.ErrorIs(t, err, lease.ErrAway)
		require.ErrorContains(t, err, "namespace ends is being deleted")
		assert.NotContains(t, err.Error(), "the service account needs")
		return nil
	})
}
