//go:build unix && go1.25

package k8slease_test

import (
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	coordination "k8s.io/api/coordination/v1"
	"k8s.io/client-go/rest"

	"github.com/seed-5394e6b1/snowflake/internal/lab/depth"
	"github.com/seed-5394e6b1/snowflake/internal/lab/kubetest"
	"github.com/seed-5394e6b1/snowflake/internal/lab/servertest"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/k8slease"
)

// window is the shortest window in the tests. A save takes about 20 ms.
const window = 2 * time.Second

// config returns the config of a client with a token.
func config(addr, token string) *rest.Config {
	c := &rest.Config{Host: "https://" + addr, BearerToken: token}
	c.Insecure = true // the server's certificate is self-signed
	// Otherwise client-go would share connections, which different processes do not.
	c.Dial = (&net.Dialer{}).DialContext
	return c
}

// open opens a store with a new client.
func open(t testing.TB, addr string, o *k8slease.Options) *k8slease.Store {
	t.Helper()
	s := servertest.Must(k8slease.New(config(addr, kubetest.Token), o))(t)
	return s
}

// in returns the options of a space.
func in(space string) *k8slease.Options {
	return &k8slease.Options{Namespace: "default", Prefix: space}
}

func TestMain(m *testing.M) {
	if os.Getenv(podEnv) != "" {
		if err := pod(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	servertest.Parallel = 16 // most tests wait for the server
	os.Exit(servertest.Main(m, func(addr, space string) (lease.Store, func() error, error) {
		s, err := k8slease.New(config(addr, kubetest.Token), in(space))
		return s, nil, err
	}))
}

// start starts a server and waits until it has its namespaces.
func start(t testing.TB) *cluster {
	t.Helper()
	s := kubetest.Start(t)
	s.Namespace(t, "default")
	return &cluster{s}
}

// suite returns the server for the suites.
func suite(c *cluster) *servertest.Server {
	return &servertest.Server{
		Process: c.Process, Others: []*servertest.Process{c.Etcd}, Addr: c.Addr, Window: window, Fleet: k8slease.DefaultWindow,
		Wipes: map[string]func(testing.TB, string){"Selector": func(t testing.TB, space string) {
			servertest.Do(t, c.Ask(kubetest.Token, "DELETE", leases("default")+"?labelSelector=snowflake-ids/store="+space, nil, nil))
		}},
		Garble: func(t testing.TB, space, key string) {
			c.change(t, space+"--"+strings.ReplaceAll(key, "/", "--"),
				func(o *coordination.Lease) { delete(o.Annotations, "snowflake-ids/version") })
		},
	}
}

func TestServer(t *testing.T) {
	depth.NeedFull(t, "crowds, outages and killed processes")
	servertest.Run(t, suite(start(t)))
}

func BenchmarkServer(b *testing.B) { servertest.Bench(b, suite(start(b))) }
