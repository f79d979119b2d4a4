//go:build unix

package k8slease_test

import (
	"context"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/seed-5394e6b1/snowflake/internal/kubetest"
	"github.com/seed-5394e6b1/snowflake/internal/servertest"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/k8slease"
)

// window is the shortest that the tests use. A save takes some 20 ms, and the server tells its
// time in seconds.
const window = 2 * time.Second

// config is that of a client with a token.
func config(addr, token string) *rest.Config {
	c := &rest.Config{Host: "https://" + addr, BearerToken: token, QPS: -1}
	c.Insecure = true // the server made its certificate itself
	c.NextProtos = []string{"http/1.1"}
	return c
}

// connect returns a clientset of its own.
func connect(addr, token string) (*kubernetes.Clientset, error) {
	return kubernetes.NewForConfig(own(config(addr, token)))
}

// clientset returns that of somebody who may do everything.
func clientset(t testing.TB, addr string) *kubernetes.Clientset {
	t.Helper()
	c, err := connect(addr, kubetest.Token)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// opened opens a store with a client of its own. It may have to be made.
func opened(t testing.TB, addr string, o *k8slease.Options) *k8slease.Store {
	t.Helper()
	s, err := k8slease.New(clientset(t, addr), o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// store opens a store, and makes it if it is not there.
func store(t testing.TB, addr string, o *k8slease.Options) *k8slease.Store {
	t.Helper()
	s := opened(t, addr, o)
	if err := s.Create(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	return s
}

// in returns the options of a space.
func in(space string) *k8slease.Options {
	return &k8slease.Options{Namespace: "default", Prefix: space}
}

var (
	clocksMu sync.Mutex
	clocks   = map[string]*k8slease.Clock{}
)

// calibrated is a store that knows the server's time to some milliseconds, as a store does that
// has been in use for a while.
func calibrated(t testing.TB, s *k8slease.Store, addr string) *k8slease.Store {
	t.Helper()
	clocksMu.Lock()
	defer clocksMu.Unlock()
	c := clocks[addr]
	if c == nil {
		c = k8slease.NewClock()
		clocks[addr] = c
	}
	if err := s.SetClock(c); err != nil {
		t.Fatal(err)
	}
	for c.Off() > 8*time.Millisecond {
		if err := s.Ask(); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// open opens a store for the servers' suite.
func open(t testing.TB, addr, space string) lease.Store {
	t.Helper()
	return store(t, addr, in(space))
}

func TestMain(m *testing.M) {
	os.Exit(servertest.Main(m, func(addr, space string) (lease.Store, error) {
		c, err := connect(addr, kubetest.Token)
		if err != nil {
			return nil, err
		}
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		s, err := k8slease.New(c, in(space))
		if err == nil {
			err = s.Create(ctx, 1)
		}
		return s, err
	}))
}

// start starts a server that has its namespaces.
func start(t testing.TB) *kubetest.Server {
	t.Helper()
	s := kubetest.Start(t)
	namespace(t, s.Addr, "default")
	return s
}

// namespace makes a namespace if it is not there.
func namespace(t testing.TB, addr, name string) {
	t.Helper()
	ns := &core.Namespace{ObjectMeta: meta.ObjectMeta{Name: name}}
	_, err := clientset(t, addr).CoreV1().Namespaces().Create(t.Context(), ns, meta.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
}

func server(t testing.TB) *servertest.Server {
	s := start(t)
	return &servertest.Server{
		Addr: s.Addr, Open: open, Window: window,
		Kill: s.Kill, Restart: s.Restart, Pause: s.Pause, Resume: s.Resume, CPU: s.CPU,
	}
}

func TestServer(t *testing.T) { servertest.Run(t, server(t)) }

func BenchmarkServer(b *testing.B) { servertest.Bench(b, server(b)) }

// own gives a client connections of its own, as each process has: client-go would share them.
func own(c *rest.Config) *rest.Config {
	c.Dial = (&net.Dialer{}).DialContext
	return c
}
