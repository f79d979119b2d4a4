//go:build unix

package k8slease_test

import (
	"context"
	"fmt"
	"log/slog"
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

	"github.com/seed-5394e6b1/snowflake/internal/depth"
	"github.com/seed-5394e6b1/snowflake/internal/kubetest"
	"github.com/seed-5394e6b1/snowflake/internal/servertest"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/k8slease"
)

// window is the shortest window that the tests use. A save takes some 20 ms, and the server tells its
// time in seconds.
const window = 2 * time.Second

// config returns the config of a client with a token.
func config(addr, token string) *rest.Config {
	c := &rest.Config{Host: "https://" + addr, BearerToken: token, QPS: -1}
	c.Insecure = true // the server made its certificate itself
	c.NextProtos = []string{"http/1.1"}
	return c
}

// connect returns a new clientset with separate connections.
func connect(addr, token string) (*kubernetes.Clientset, error) {
	return kubernetes.NewForConfig(own(config(addr, token)))
}

// clientset returns a clientset with all rights.
func clientset(t testing.TB, addr string) *kubernetes.Clientset {
	t.Helper()
	c, err := connect(addr, kubetest.Token)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// opened opens a store with a new client. The store may not exist.
func opened(t testing.TB, addr string, o *k8slease.Options) *k8slease.Store {
	t.Helper()
	s, err := k8slease.New(clientset(t, addr), o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// store opens a store, and makes it if it does not exist.
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

// calibrated returns a store that knows the server's time to some milliseconds, as if it had been in use for
// a while.
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
	if os.Getenv(podEnv) != "" {
		if err := pod(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
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

// start starts a server and waits until it has its namespaces.
func start(t testing.TB) *kubetest.Server {
	t.Helper()
	s := kubetest.Start(t)
	namespace(t, s.Addr, "default")
	return s
}

// namespace makes a namespace if it does not exist.
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

func TestServer(t *testing.T) {
	depth.NeedFull(t, "crowds, outages and killed processes")
	servertest.Run(t, server(t))
}

// BenchmarkThousandHolders measures how busy 1,000 holders with the default window keep a server. It takes
// minutes.
func BenchmarkThousandHolders(b *testing.B) {
	const n, measured = 1000, time.Minute
	s := start(b)
	var stores []*k8slease.Store
	for range 16 {
		stores = append(stores, store(b, s.Addr, in("thousand")))
	}
	quiet := slog.New(slog.DiscardHandler)
	leases := make([]*lease.Lease, n)
	failed := make(chan error, n)
	room := make(chan struct{}, 8) // a few at a time, as a fleet is deployed
	begun := time.Now()
	for i := range leases {
		room <- struct{}{}
		go func() {
			var err error
			defer func() { failed <- err; <-room }()
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
			defer cancel()
			leases[i], err = lease.Acquire(ctx, stores[i%len(stores)], &lease.Options{Owner: fmt.Sprint("pod-", i), Logger: quiet})
		}()
	}
	for range leases {
		if err := <-failed; err != nil {
			b.Fatal(err)
		}
	}
	acquired := time.Since(begun)
	count := func() (renewals, failures uint64) {
		for _, l := range leases {
			renewals += l.Stats().Renewals
			failures += l.Stats().Failures
		}
		return renewals, failures
	}
	time.Sleep(k8slease.DefaultWindow / 3) // until the first has renewed
	before, _ := count()
	api, etcd, begun := s.CPU(), s.Etcd.CPU(), time.Now()
	b.ResetTimer()
	time.Sleep(measured)
	b.StopTimer()
	took := time.Since(begun).Seconds()
	after, failures := count()
	b.ReportMetric(acquired.Seconds(), "s-to-acquire-all")
	b.ReportMetric(float64(after-before)/took, "renewals/s")
	b.ReportMetric((s.CPU()-api).Seconds()/took*100, "%cpu-apiserver")
	b.ReportMetric((s.Etcd.CPU()-etcd).Seconds()/took*100, "%cpu-etcd")
	b.ReportMetric(float64(failures), "failures")
	b.ReportMetric(0, "ns/op")
}

func BenchmarkServer(b *testing.B) { servertest.Bench(b, server(b)) }

// own gives a client separate connections, as each process has. Otherwise client-go would share them.
func own(c *rest.Config) *rest.Config {
	c.Dial = (&net.Dialer{}).DialContext
	return c
}
