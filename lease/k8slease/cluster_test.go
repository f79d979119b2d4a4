//go:build unix

package k8slease_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	coordination "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/depth"
	"github.com/seed-5394e6b1/snowflake/internal/kubetest"
	"github.com/seed-5394e6b1/snowflake/internal/servertest"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/k8slease"
)

// TestCluster has the tests that share a server and do not disturb it.
func TestCluster(t *testing.T) {
	t.Parallel()
	c := &cluster{start(t)}
	for _, test := range []struct {
		name string
		run  func(*testing.T, *cluster)
	}{
		{"WhatKubectlShows", whatKubectlShows},
		{"Requests", requests},
		{"ObjectChangedByOthers", changedByOthers},
		{"LeaseInTheWay", inTheWay},
		{"NeverCreated", neverCreated},
		{"CreateLeavesWhatIsThere", createTwice},
		{"WrongNamespace", wrongNamespace},
		{"WrongToken", wrongToken},
		{"TooManyRequests", tooManyRequests},
		{"HistoryHasABound", historyBound},
		{"HistoryThatCannotBeRead", unreadableHistory},
		{"CrashInBetween", crashInBetween},
		{"AnswerThatWasLost", lostAnswer},
		{"DeadConnectionWithHTTP2", deadConnection},
		{"OwnClock", ownClock},
		{"DefaultWindow", defaultWindow},
		{"RecordThatIsGone", recordIsGone},
		{"RecordsThatGoOneByOne", goneOneByOne},
		{"HolderOfARecordThatIsGone", holderGoesOn},
		{"AnswerToTheFirstSaveThatWasLost", lostFirstAnswer},
		{"LabelsThatAreGone", withoutLabels},
		{"ManyPages", manyPages},
		{"ServerThatFails", failingServer},
		{"LeastRights", leastRights},
		{"InCluster", inCluster},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(t, c)
		})
	}
}

type cluster struct{ *kubetest.Server }

var names atomic.Int64

// fresh returns a new store, its prefix and a client of its namespace.
func (c *cluster) fresh(t *testing.T) (*k8slease.Store, string, leases) {
	t.Helper()
	prefix := fmt.Sprint("test", names.Add(1))
	return store(t, c.Addr, in(prefix)), prefix, c.leases(t, "default")
}

// leases is a client that changes objects as kubectl does.
type leases struct {
	t *testing.T
	*kubernetes.Clientset
	namespace string
}

func (c *cluster) leases(t *testing.T, namespace string) leases {
	return leases{t, clientset(t, c.Addr), namespace}
}

func (l leases) get(name string) *coordination.Lease {
	l.t.Helper()
	o, err := l.CoordinationV1().Leases(l.namespace).Get(l.t.Context(), name, meta.GetOptions{})
	if err != nil {
		l.t.Fatal(err)
	}
	return o
}

func (l leases) delete(name string) {
	l.t.Helper()
	if err := l.CoordinationV1().Leases(l.namespace).Delete(l.t.Context(), name, meta.DeleteOptions{}); err != nil {
		l.t.Fatal(err)
	}
}

func (l leases) create(name string) *coordination.Lease {
	l.t.Helper()
	holder := "somebody else"
	o := &coordination.Lease{ObjectMeta: meta.ObjectMeta{Name: name}, Spec: coordination.LeaseSpec{HolderIdentity: &holder}}
	o, err := l.CoordinationV1().Leases(l.namespace).Create(l.t.Context(), o, meta.CreateOptions{})
	if err != nil {
		l.t.Fatal(err)
	}
	return o
}

// change changes an object. If somebody else changes it at the same time, it tries again.
func (l leases) change(name string, change func(*coordination.Lease)) {
	l.t.Helper()
	for {
		o := l.get(name)
		change(o)
		_, err := l.CoordinationV1().Leases(l.namespace).Update(l.t.Context(), o, meta.UpdateOptions{})
		if err == nil {
			return
		}
		if !apierrors.IsConflict(err) {
			l.t.Fatal(err)
		}
	}
}

func record(worker int, version uint64) lease.Record {
	return lease.Record{
		Worker: worker, Version: version, Token: "token", State: lease.Held, Owner: "orders-7", Host: "host", PID: 1,
		Layout: snowflake.DefaultLayout(), Bounds: []time.Time{time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)}, Window: 1500 * time.Millisecond,
	}
}

func save(t *testing.T, s lease.Store, r lease.Record) lease.Record {
	t.Helper()
	r, err := s.Save(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// refused checks that an error matches target and contains the texts.
func refused(t *testing.T, err, target error, says ...string) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Errorf("the error is %v, not one that matches %v", err, target)
		return
	}
	for _, s := range says {
		if !strings.Contains(err.Error(), s) {
			t.Errorf("the error does not say %q: %v", s, err)
		}
	}
}

func whatKubectlShows(t *testing.T, c *cluster) {
	s, prefix, kubectl := c.fresh(t)
	first := save(t, s, record(7, 1))
	o := kubectl.get(prefix + "-7")
	spec := o.Spec
	if *spec.HolderIdentity != "orders-7" || *spec.LeaseDurationSeconds != 2 || *spec.LeaseTransitions != 0 ||
		spec.RenewTime.Sub(first.Renewed).Abs() > time.Microsecond || !spec.AcquireTime.Equal(spec.RenewTime) {
		t.Errorf("the first record: %+v", spec)
	}
	if o.Labels["snowflake-ids/store"] != prefix || o.Labels["snowflake-ids/kind"] != "record" {
		t.Errorf("labels %v", o.Labels)
	}
	second := save(t, s, record(7, 2))
	if spec := kubectl.get(prefix + "-7").Spec; !spec.AcquireTime.Equal(o.Spec.AcquireTime) ||
		spec.RenewTime.Sub(second.Renewed).Abs() > time.Microsecond || *spec.LeaseTransitions != 0 {
		t.Errorf("after a renewal: %+v", spec)
	}
	r := record(7, 3)
	r.Token, r.Owner = "another", "orders-8"
	third := save(t, s, r)
	if spec := kubectl.get(prefix + "-7").Spec; *spec.HolderIdentity != "orders-8" || *spec.LeaseTransitions != 1 ||
		spec.AcquireTime.Sub(third.Renewed).Abs() > time.Microsecond {
		t.Errorf("after a takeover: %+v", spec)
	}
	r.Version, r.State, r.Window = 4, lease.Free, 1<<62
	save(t, s, r)
	if spec := kubectl.get(prefix + "-7").Spec; spec.HolderIdentity != nil || *spec.LeaseDurationSeconds != 1<<31-1 {
		t.Errorf("after a release: %+v", spec)
	}
	if got, want := s.Locate(7), "lease default/"+prefix+"-7"; got != want {
		t.Errorf("it is at %q, not %q", got, want)
	}
}

// recorder records the requests that go through it.
type recorder struct {
	http.RoundTripper
	mu  sync.Mutex
	all []string
}

func (r *recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	r.mu.Lock()
	what := req.Method + " " + strings.TrimPrefix(req.URL.Path, "/apis/coordination.k8s.io/v1/namespaces/default/")
	if req.URL.Query().Has("resourceVersion") {
		what += " of resourceVersion " + req.URL.Query().Get("resourceVersion")
	}
	r.all = append(r.all, what)
	r.mu.Unlock()
	return r.RoundTripper.RoundTrip(req)
}

func (r *recorder) take() (all []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all, r.all = r.all, nil
	return all
}

// through opens a store whose requests go through a transport.
func (c *cluster) through(t *testing.T, prefix string, wrap func(http.RoundTripper) http.RoundTripper) *k8slease.Store {
	t.Helper()
	cfg := own(config(c.Addr, kubetest.Token))
	cfg.Wrap(wrap)
	cs, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s, err := k8slease.New(cs, in(prefix))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func requests(t *testing.T, c *cluster) {
	_, prefix, _ := c.fresh(t)
	r := new(recorder)
	s := c.through(t, prefix, func(rt http.RoundTripper) http.RoundTripper { r.RoundTripper = rt; return r })
	did := func(what string, want ...string) {
		t.Helper()
		if got := r.take(); !reflect.DeepEqual(got, want) {
			t.Errorf("%s asks for\n%s, not\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	object := "leases/" + prefix + "-7"
	save(t, s, record(7, 1))
	r.take()
	save(t, s, record(7, 2))
	did("a renewal", "PUT "+object)
	save(t, s, record(7, 3))
	did("another renewal", "PUT "+object)
	if _, err := s.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	did("Load", "GET leases")
	if _, err := s.LoadWorker(t.Context(), 7); err != nil {
		t.Fatal(err)
	}
	did("LoadWorker", "GET "+object)
	other := opened(t, c.Addr, in(prefix))
	save(t, other, record(7, 4))
	if _, err := s.Save(t.Context(), record(7, 4)); !errors.Is(err, lease.ErrConflict) {
		t.Error(err)
	}
	did("a renewal that comes late", "PUT "+object, "GET "+object)
	takeover := record(7, 5)
	takeover.Token = "another"
	if _, err := s.SaveEnding(t.Context(), takeover, lease.Holding{Worker: 7, Token: "token"}, time.Time{}); err != nil {
		t.Fatal(err)
	}
	did("a takeover", "GET "+object, "PUT "+object)
}

// If somebody puts labels and annotations on an object, as kubectl does, the holder renews, and they stay.
func changedByOthers(t *testing.T, c *cluster) {
	s, prefix, kubectl := c.fresh(t)
	save(t, s, record(7, 1))
	kubectl.change(prefix+"-7", func(o *coordination.Lease) {
		o.Labels["team"] = "orders"
		delete(o.Labels, "snowflake-ids/store")
	})
	save(t, s, record(7, 2))
	if o := kubectl.get(prefix + "-7"); o.Labels["team"] != "orders" {
		t.Errorf("the labels are %v", o.Labels)
	}
	if snap, err := s.Load(t.Context()); err != nil || len(snap.Records) != 1 || len(snap.Lost) != 0 {
		t.Errorf("without its label the record is not found: %+v, %v", snap, err)
	}
	_, err := s.Save(t.Context(), record(7, 1))
	refused(t, err, lease.ErrConflict, prefix+"-7")

	save(t, s, record(8, 1))
	other := kubectl.get(prefix + "-8").Annotations["snowflake-ids/record"]
	kubectl.change(prefix+"-7", func(o *coordination.Lease) { o.Annotations["snowflake-ids/record"] = other })
	_, err = s.LoadWorker(t.Context(), 7)
	refused(t, err, lease.ErrBadRecord, "lease default/"+prefix+"-7", "worker 8")
}

func inTheWay(t *testing.T, c *cluster) {
	s, prefix, kubectl := c.fresh(t)
	theirs := kubectl.create(prefix + "-0")
	_, err := s.Save(t.Context(), record(0, 1))
	refused(t, err, lease.ErrBadRecord, "lease default/"+prefix+"-0", "not made by this package", "delete it, or choose another Options.Prefix")
	_, err = s.LoadWorker(t.Context(), 0)
	refused(t, err, lease.ErrBadRecord, "lease default/"+prefix+"-0")
	_, err = lease.Acquire(t.Context(), s, &lease.Options{Count: 1, Window: window})
	refused(t, err, lease.ErrBadRecord, "lease default/"+prefix+"-0", "delete it")
	kubectl.create(prefix + "-x")           // not a name of this store
	kubectl.create(prefix + "-01")          // the same
	kubectl.create(prefix + "-2-history")   // a worker ID that was not used yet
	kubectl.create(fmt.Sprint("x", prefix)) // the same
	var log strings.Builder
	l, err := lease.Acquire(t.Context(), s, &lease.Options{Window: window, Count: 3, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil || l.Worker() != 1 {
		t.Fatalf("%v, %v", l, err)
	}
	if err := l.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"-0", "-2-history"} {
		if !strings.Contains(log.String(), "lease default/"+prefix+name+" was not made by this package: delete it") {
			t.Errorf("it starts without a word about %s: %s", name, &log)
		}
	}
	if snap, err := s.Load(t.Context()); err != nil || len(snap.Lost) != 2 || len(snap.Records) != 1 {
		t.Errorf("%+v, %v", snap, err)
	}
	kubectl.delete(prefix + "-2-history")
	if got := kubectl.get(prefix + "-0"); !reflect.DeepEqual(got, theirs) {
		t.Errorf("it was\n%v and is\n%v", theirs, got)
	}

	theirs = kubectl.create(prefix + "-2-history")
	_, err = s.Save(t.Context(), record(2, 1))
	refused(t, err, lease.ErrBadRecord, "lease default/"+prefix+"-2-history")
	if got := kubectl.get(prefix + "-2-history"); !reflect.DeepEqual(got, theirs) {
		t.Errorf("it was\n%v and is\n%v", theirs, got)
	}

	other := prefix + "-other"
	theirs = kubectl.create(other)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err = opened(t, c.Addr, in(other)).Create(ctx, time.Hour) // it does not wait for two hours first
	refused(t, err, lease.ErrBadRecord, "lease default/"+other, "delete it")
	if got := kubectl.get(other); !reflect.DeepEqual(got, theirs) {
		t.Errorf("it was\n%v and is\n%v", theirs, got)
	}
}

func neverCreated(t *testing.T, c *cluster) {
	prefix := fmt.Sprint("never", names.Add(1))
	s := opened(t, c.Addr, in(prefix))
	for name, call := range map[string]func() error{
		"Load":       func() error { _, err := s.Load(t.Context()); return err },
		"LoadWorker": func() error { _, err := s.LoadWorker(t.Context(), 1); return err },
		"History":    func() error { _, err := s.History(t.Context(), 1); return err },
		"Save":       func() error { _, err := s.Save(t.Context(), record(1, 1)); return err },
		"a later Save": func() error {
			_, err := s.SaveEnding(t.Context(), record(1, 2), lease.Holding{}, time.Time{})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			refused(t, call(), lease.ErrWiped, "lease default/"+prefix, "never created", "see Store.Create")
		})
	}
	all, err := clientset(t, c.Addr).CoordinationV1().Leases("default").List(t.Context(), meta.ListOptions{LabelSelector: "snowflake-ids/store=" + prefix})
	if err != nil || len(all.Items) > 0 {
		t.Errorf("it has left %v, %v", all, err)
	}
}

func createTwice(t *testing.T, c *cluster) {
	s, prefix, kubectl := c.fresh(t)
	save(t, s, record(1, 1))
	before := kubectl.get(prefix)
	if err := s.Create(t.Context(), time.Hour); err != nil {
		t.Fatal(err)
	}
	if after := kubectl.get(prefix); after.ResourceVersion != before.ResourceVersion {
		t.Errorf("it was\n%v and is\n%v", before, after)
	}
	refused(t, s.Create(t.Context(), -1), lease.ErrInvalidOptions)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	refused(t, opened(t, c.Addr, in(prefix+"x")).Create(ctx, 1), context.Canceled)
}

func wrongNamespace(t *testing.T, c *cluster) {
	s := opened(t, c.Addr, &k8slease.Options{Namespace: "nowhere"})
	_, err := lease.Acquire(t.Context(), s, nil)
	refused(t, err, lease.ErrWiped, "lease nowhere/snowflake", "see Store.Create")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err = s.Create(ctx, time.Hour) // it does not wait for two hours first
	if !apierrors.IsNotFound(errors.Unwrap(err)) {
		t.Errorf("the error is %v", err)
	}
	refused(t, err, err, "lease nowhere/snowflake", "is there a namespace nowhere?")
}

func wrongToken(t *testing.T, c *cluster) {
	cs, err := connect(c.Addr, "wrong")
	if err != nil {
		t.Fatal(err)
	}
	s, err := k8slease.New(cs, in("snowflake"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = lease.Acquire(t.Context(), s, nil)
	if !apierrors.IsUnauthorized(errors.Unwrap(err)) {
		t.Errorf("the error is %v", err)
	}
	refused(t, err, err, "default/snowflake", "does not know the token")
}

// busy answers some requests as an overloaded API server does.
type busy struct {
	http.RoundTripper
	left *atomic.Int64
}

func (b busy) RoundTrip(req *http.Request) (*http.Response, error) {
	if b.left.Add(-1) < 0 {
		return b.RoundTripper.RoundTrip(req)
	}
	if req.Body != nil {
		req.Body.Close()
	}
	return &http.Response{
		StatusCode: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"1"}}, Body: http.NoBody, Request: req,
	}, nil
}

func tooManyRequests(t *testing.T, c *cluster) {
	_, prefix, _ := c.fresh(t)
	var left atomic.Int64
	s := c.through(t, prefix, func(rt http.RoundTripper) http.RoundTripper { return busy{rt, &left} })
	save(t, s, record(1, 1))
	left.Store(2)
	save(t, s, record(1, 2))
	if left.Load() >= 0 {
		t.Error("the test itself is wrong: the server was not busy")
	}
	left.Store(1000)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := s.Save(ctx, record(1, 3))
	refused(t, err, context.DeadlineExceeded, "lease default/"+prefix+"-1")
	left.Store(0)
	save(t, s, record(1, 3))
}

func holding(worker, n int) lease.Holding {
	at := time.Date(2026, 11, 20, 12, 0, n, 0, time.UTC)
	return lease.Holding{
		Worker: worker, From: at, To: at.Add(time.Second), Token: fmt.Sprintf("a token of 26 bytes, %06d", n),
		Owner: "orders-5d4f6c7b9-x7k2p", Host: "orders-5d4f6c7b9-x7k2p", PID: 1,
	}
}

// If holdings are dropped to keep the history small, they count as forgotten, and no other holdings are dropped.
func historyBound(t *testing.T, c *cluster) {
	s, prefix, kubectl := c.fresh(t)
	one, err := json.Marshal(holding(1, 1))
	if err != nil {
		t.Fatal(err)
	}
	limit := 20 * (len(one) + 1)
	s.SetLimit(limit)
	r := save(t, s, record(1, 1))
	var all []lease.Holding
	for n := range depth.Of(31, 60) {
		all = append(all, holding(1, n))
		r.Version++
		if r, err = s.SaveEnding(t.Context(), r, all[n], time.Time{}); err != nil {
			t.Fatal(err)
		}
		got, err := opened(t, c.Addr, in(prefix)).History(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		slices.SortFunc(got, func(a, b lease.Holding) int { return a.From.Compare(b.From) })
		if len(got) > 20+8 || len(got) < min(n+1, 20) || !reflect.DeepEqual(got, all[len(all)-len(got):]) {
			t.Fatalf("of %d holdings there are %d: %v", n+1, len(got), got)
		}
		if dropped := len(all) - len(got); dropped > 0 && r.Forgotten.Before(all[dropped-1].To) || dropped == 0 && !r.Forgotten.IsZero() {
			t.Fatalf("%d holdings are dropped, and what is forgotten is what was before %v", dropped, r.Forgotten)
		}
		if snap, err := s.LoadWorker(t.Context(), 1); err != nil || !snap.Records[0].Forgotten.Equal(r.Forgotten) {
			t.Fatalf("%v is forgotten, and stored is %v, %v", r.Forgotten, snap, err)
		}
		text := kubectl.get(prefix + "-1").Annotations["snowflake-ids/ended"]
		if len(text) > 9*(len(one)+1) {
			t.Fatalf("the record has %d bytes of history", len(text))
		}
	}
	if text := kubectl.get(prefix + "-1-history").Annotations["snowflake-ids/holdings"]; len(text) > limit+9*(len(one)+1) {
		t.Errorf("the history has %d bytes", len(text))
	}
	if n := k8slease.MaxHistory / (len(one) + 1); n < 600 {
		t.Errorf("the doc says some 600 holders, and %d have room", n)
	}
}

func unreadableHistory(t *testing.T, c *cluster) {
	s, prefix, kubectl := c.fresh(t)
	r := save(t, s, record(1, 1))
	r.Version++
	r, err := s.SaveEnding(t.Context(), r, holding(1, 1), time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	for object, annotation := range map[string]string{
		prefix + "-1":         "snowflake-ids/ended",
		prefix + "-1-history": "snowflake-ids/holdings",
	} {
		var was string
		kubectl.change(object, func(o *coordination.Lease) {
			was, o.Annotations[annotation] = o.Annotations[annotation], `[{"worker":1`
		})
		_, err := s.History(t.Context(), 1)
		refused(t, err, lease.ErrBadRecord, "lease default/"+object, annotation)
		r.Version++
		r = save(t, s, r) // the holder renews
		if got := kubectl.get(object).Annotations[annotation]; got != `[{"worker":1` {
			t.Errorf("what could not be read is gone: %s", got)
		}
		kubectl.change(object, func(o *coordination.Lease) { o.Annotations[annotation] = was })
	}
	if got, err := s.History(t.Context(), 1); err != nil || !reflect.DeepEqual(got, []lease.Holding{holding(1, 1)}) {
		t.Errorf("%v, %v", got, err)
	}
}

// losing loses the answers to updates.
type losing struct {
	http.RoundTripper
	lose *atomic.Bool
}

func (l losing) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := l.RoundTripper.RoundTrip(req)
	if err == nil && req.Method == http.MethodPut && l.lose.Swap(false) {
		resp.Body.Close()
		return nil, net.ErrClosed
	}
	return resp, err
}

// If the answer to a renewal is lost, the holder finds out that it was saved, and keeps its worker ID.
func lostAnswer(t *testing.T, c *cluster) {
	_, prefix, _ := c.fresh(t)
	var lose atomic.Bool
	s := c.through(t, prefix, func(rt http.RoundTripper) http.RoundTripper { return losing{rt, &lose} })
	l, crash, err := servertest.Acquire(t, s, lease.Options{Window: window})
	if err != nil {
		t.Fatal(err)
	}
	defer crash()
	for range 3 {
		lose.Store(true)
		begun, renewals := time.Now(), l.Stats().Renewals
		for lose.Load() || l.Stats().Renewals == renewals {
			if time.Since(begun) > time.Minute {
				t.Fatalf("it does not go on: %+v", l.Stats())
			}
			time.Sleep(time.Millisecond)
		}
	}
	if stats := l.Stats(); stats.Replacements > 0 || stats.Failures == 0 {
		t.Errorf("%+v", stats)
	}
}

// With HTTP/2, the default of clientsets, requests share a connection. If the connection dies silently and a
// request times out, later requests get another connection.
func deadConnection(t *testing.T, c *cluster) {
	_, prefix, _ := c.fresh(t)
	proxy := servertest.NewProxy(t, c.Addr)
	cfg := config(c.Addr, kubetest.Token)
	cfg.NextProtos = nil
	var proto atomic.Int64
	var direct atomic.Bool
	cfg.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if !direct.Load() {
			addr = proxy.Addr()
		}
		return new(net.Dialer).DialContext(ctx, network, addr)
	}
	cfg.Wrap(func(rt http.RoundTripper) http.RoundTripper {
		return roundTrip(func(req *http.Request) (*http.Response, error) {
			resp, err := rt.RoundTrip(req)
			if err == nil {
				proto.Store(int64(resp.ProtoMajor))
			}
			return resp, err
		})
	})
	cs, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s, err := k8slease.New(cs, in(prefix))
	if err != nil {
		t.Fatal(err)
	}
	r := save(t, s, record(1, 1))
	if proto.Load() != 2 {
		t.Fatalf("the test itself is wrong: it speaks HTTP/%d", proto.Load())
	}
	proxy.Drop() // from now on, everything that is sent on this connection is lost silently
	direct.Store(true)
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	r.Version++
	_, err = s.Save(ctx, r)
	refused(t, err, context.DeadlineExceeded, "lease default/"+prefix+"-1")
	proxy.Delay(0) // the network works again, but the connection does not
	ctx, cancel = context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if _, err := s.Save(ctx, r); err != nil {
		t.Error(err)
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// If a node's clock is ahead of the server's, the node gets no worker ID.
func ownClock(t *testing.T, c *cluster) {
	s, _, _ := c.fresh(t)
	snap, err := s.Load(t.Context())
	if err != nil || !snap.OwnClock {
		t.Fatalf("%+v, %v", snap, err)
	}
	if off := time.Since(snap.Now).Abs(); off > 5*time.Second {
		t.Errorf("the server's time is %v, off by %v", snap.Now, off)
	}
	ahead := snowflake.ClockFunc(func() time.Time { return time.Now().Add(time.Hour) })
	_, err = lease.Acquire(t.Context(), s, &lease.Options{Clock: ahead})
	refused(t, err, lease.ErrClockLeap)
}

func defaultWindow(t *testing.T, c *cluster) {
	s, prefix, kubectl := c.fresh(t)
	l, err := lease.Acquire(t.Context(), s, &lease.Options{Owner: "a"})
	if err != nil {
		t.Fatal(err)
	}
	if n := *kubectl.get(prefix + "-0").Spec.LeaseDurationSeconds; n != 100 {
		t.Errorf("the window is %d s", n)
	}
	if err := l.Release(context.Background()); err != nil {
		t.Fatal(err)
	}
	if perSecond := 1000 * 3 / k8slease.DefaultWindow.Seconds(); perSecond > 30 {
		t.Errorf("1,000 pods make %v renewals a second", perSecond)
	}
}

func TestInvalidOptionsAreRefused(t *testing.T) {
	cs, err := connect("127.0.0.1:1", "")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		clientset kubernetes.Interface
		o         *k8slease.Options
		says      string
	}{
		{nil, in("a"), "the clientset is nil"},
		{fake.NewClientset(), in("a"), "no connection to an API server"},
		{cs, nil, `Namespace "" is not`},
		{cs, &k8slease.Options{Namespace: "A"}, `Namespace "A" is not`},
		{cs, &k8slease.Options{Namespace: "../x"}, `Namespace "../x" is not`},
		{cs, in("7"), `Prefix "7" is not`},
		{cs, in("A"), `Prefix "A" is not`},
		{cs, in("a-"), `Prefix "a-" is not`},
		{cs, in("a/b"), `Prefix "a/b" is not`},
		{cs, in(strings.Repeat("a", 41)), "is not 1 to 40"},
	} {
		s, err := k8slease.New(test.clientset, test.o)
		refused(t, err, lease.ErrInvalidOptions, test.says)
		if s != nil {
			t.Errorf("%+v: there is a store", test.o)
		}
	}
	s, err := k8slease.New(cs, in(strings.Repeat("a", 40)))
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Save(t.Context(), record(-1, 1))
	refused(t, err, lease.ErrBadRecord, "worker -1")
}

func TestInClusterOutsideOfAPodIsRefused(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	s, err := k8slease.InCluster(nil)
	refused(t, err, rest.ErrNotInCluster)
	if s != nil {
		t.Error("there is a store")
	}
}

func TestInClusterWithoutATokenIsRefused(t *testing.T) {
	if _, err := os.Stat("/var/run/secrets/kubernetes.io/serviceaccount/token"); err == nil {
		t.Skip("this is a pod that has a token")
	}
	t.Setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
	t.Setenv("KUBERNETES_SERVICE_PORT", "1")
	_, err := k8slease.InCluster(nil)
	refused(t, err, os.ErrNotExist, "serviceaccount/token", "is automountServiceAccountToken false?")
}

func TestInClusterTakesThePodsNamespace(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "namespace")
	cfg := config("127.0.0.1:1", "")
	_, err := k8slease.InClusterWith(cfg, file, nil)
	refused(t, err, lease.ErrInvalidOptions, "Namespace is empty", file)
	if err := os.WriteFile(file, []byte("shop\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, o := range map[string]*k8slease.Options{
		"lease shop/snowflake-7": nil, "lease shop/x-7": {Prefix: "x"}, "lease other/snowflake-7": {Namespace: "other"},
	} {
		s, err := k8slease.InClusterWith(cfg, file, o)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Locate(7); got != want {
			t.Errorf("the record of worker 7 is %s, not %s", got, want)
		}
	}
}

// failing fails updates of one object.
type failing struct {
	http.RoundTripper
	suffix string
	left   *atomic.Int64
}

func (f failing) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method == http.MethodPut && strings.HasSuffix(req.URL.Path, f.suffix) && f.left.Add(-1) >= 0 {
		if req.Body != nil {
			req.Body.Close()
		}
		return nil, net.ErrClosed
	}
	return f.RoundTripper.RoundTrip(req)
}

// A process may crash before or after it copies the last holders to the history, before it saves its record.
// Then no holding is lost, and no holding is there twice.
func crashInBetween(t *testing.T, c *cluster) {
	for _, suffix := range []string{"-1", "-1-history"} {
		_, prefix, _ := c.fresh(t)
		var left atomic.Int64
		s := c.through(t, prefix, func(rt http.RoundTripper) http.RoundTripper { return failing{rt, suffix, &left} })
		r := save(t, s, record(1, 1))
		var want []lease.Holding
		has := func() {
			t.Helper()
			got, err := opened(t, c.Addr, in(prefix)).History(t.Context(), 1)
			slices.SortFunc(got, func(a, b lease.Holding) int { return a.From.Compare(b.From) })
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Fatalf("the history is\n%v, not\n%v; %v", got, want, err)
			}
		}
		failed := 0
		for n := range depth.Of(8, 40) {
			next := r
			next.Version++
			left.Store(1)
			if _, err := s.SaveEnding(t.Context(), next, holding(1, 1000+n), time.Time{}); err != nil {
				failed++
				has() // the failed call has changed nothing
			} else {
				want = append(want, holding(1, 1000+n))
				next.Version++
			}
			left.Store(0)
			saved, err := opened(t, c.Addr, in(prefix)).SaveEnding(t.Context(), next, holding(1, 2000+n), time.Time{})
			if err != nil {
				t.Fatal(err)
			}
			want, r = append(want, holding(1, 2000+n)), saved
			slices.SortFunc(want, func(a, b lease.Holding) int { return a.From.Compare(b.From) })
			has()
		}
		if failed == 0 {
			t.Error("the test itself is wrong: nothing has failed")
		}
	}
}
