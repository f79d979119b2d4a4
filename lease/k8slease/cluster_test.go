//go:build unix && go1.25

package k8slease_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordination "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/seed-5394e6b1/snowflake/internal/lab/kubetest"
	"github.com/seed-5394e6b1/snowflake/internal/lab/servertest"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/k8slease"
)

// This file is longer than the store, because other programs write Leases, too, and each field that
// they may change has a test.

// TestCluster runs the tests that share a server and do not disturb it.
func TestCluster(t *testing.T) {
	t.Parallel()
	c := start(t)
	for _, test := range []struct {
		name string
		run  func(*testing.T, *cluster)
	}{
		{"Store", func(t *testing.T, c *cluster) { servertest.Store(t, suite(c)) }},
		{"WhatKubectlShows", whatKubectlShows},
		{"Requests", requests},
		{"ObjectChangedByOthers", changedByOthers},
		{"LabelsThatWereRemoved", labelsRemoved},
		{"LeaseInTheWay", inTheWay},
		{"AnnotationThatWasRemoved", annotationRemoved},
		{"WrongNamespace", wrongNamespace},
		{"NamespaceThatIsBeingDeleted", namespaceEnds},
		{"WrongToken", wrongToken},
		{"RequestThatIsSentTwice", sentTwice},
		{"CopyWithTheSameVersion", sameVersion},
		{"ValueThatIsTooLarge", tooLarge},
		{"ChangeBeforeADelete", changeBeforeDelete},
		{"LongKey", longKey},
		{"ListThatExpires", listExpires},
		{"DeadConnections", deadConnections},
		{"LeastRights", leastRights},
		{"InCluster", inCluster},
		{"Manifests", manifests},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(t, c)
		})
	}
}

// cluster is a server whose objects a test can change like kubectl.
type cluster struct{ *kubetest.Server }

// unreachable is a cluster without a server.
var unreachable = cluster{&kubetest.Server{Addr: "127.0.0.1:1"}}

// leases returns the path of a namespace's Leases.
func leases(namespace string) string {
	return "/apis/coordination.k8s.io/v1/namespaces/" + namespace + "/leases"
}

func (c *cluster) get(t testing.TB, name string) (o coordination.Lease) {
	t.Helper()
	servertest.Do(t, c.Ask(kubetest.Token, "GET", leases("default")+"/"+name, nil, &o))
	return o
}

func (c *cluster) create(t testing.TB, name string) {
	t.Helper()
	o := coordination.Lease{ObjectMeta: meta.ObjectMeta{Name: name}}
	servertest.Do(t, c.Ask(kubetest.Token, "POST", leases("default"), o, nil))
}

func (c *cluster) change(t testing.TB, name string, change func(*coordination.Lease)) {
	t.Helper()
	o := c.get(t, name)
	change(&o)
	servertest.Do(t, c.Ask(kubetest.Token, "PUT", leases("default")+"/"+name, o, nil))
}

// refused checks that an error matches target and contains the texts.
func refused(t *testing.T, err, target error, says ...string) {
	t.Helper()
	require.ErrorIs(t, err, target)
	for _, text := range says {
		assert.ErrorContains(t, err, text)
	}
}

func whatKubectlShows(t *testing.T, c *cluster) {
	prefix := servertest.NewSpace()
	s := open(t, c.Addr, in(prefix))
	version := ""
	for owner, value := range map[string]string{
		"":         "no JSON",
		"orders-7": `{"owner":"orders-7","worker":7}`,
		"orders-8": `{"owner":"orders-8","worker":7}`,
	} {
		before := time.Now()
		version = servertest.Put(t, s, "worker/7", version, value).Version
		o := c.get(t, prefix+"--worker--7")
		if holder := o.Spec.HolderIdentity; owner == "" && holder != nil || owner != "" && (holder == nil || *holder != owner) {
			t.Errorf("after %s, the holder is %v", value, holder)
		}
		at := o.Spec.RenewTime
		require.False(t, at.Before(&meta.MicroTime{Time: before.Add(-time.Second)}), "the time is %v", at)
		assert.False(t, at.Time.After(time.Now()), "the time is %v", at)
		require.Equal(t, prefix, o.Labels["snowflake-ids/store"], "the object is %v", o)
		require.Equal(t, "worker", o.Labels["snowflake-ids/kind"], "the object is %v", o)
		assert.Equal(t, value, o.Annotations["snowflake-ids/value"], "the object is %v", o)
	}
}

// through opens a store whose requests go through a function, which may forward them.
func (c *cluster) through(
	t *testing.T, prefix string, f func(send http.RoundTripper, req *http.Request) (*http.Response, error),
) *k8slease.Store {
	t.Helper()
	cfg := config(c.Addr, kubetest.Token)
	cfg.Wrap(func(send http.RoundTripper) http.RoundTripper {
		return servertest.RoundTrip(func(req *http.Request) (*http.Response, error) { return f(send, req) })
	})
	return servertest.Must(k8slease.New(cfg, in(prefix)))(t)
}

// Reads have no resourceVersion, which would let the server answer from a cache.
func requests(t *testing.T, c *cluster) {
	prefix := servertest.NewSpace()
	var mu sync.Mutex
	var all []string
	s := c.through(t, prefix, func(send http.RoundTripper, req *http.Request) (*http.Response, error) {
		mu.Lock()
		defer mu.Unlock()
		what := req.Method + " " + strings.TrimPrefix(req.URL.Path, "/apis/coordination.k8s.io/v1/namespaces/default/")
		if req.URL.Query().Has("resourceVersion") {
			what += " of resourceVersion " + req.URL.Query().Get("resourceVersion")
		}
		if selector := req.URL.Query().Get("labelSelector"); selector != "" {
			what += " with " + selector
		}
		if !req.URL.Query().Has("continue") { // the other tests' objects may make more pages
			all = append(all, what)
		}
		return send.RoundTrip(req)
	})
	did := func(what string, err, want error, requests ...string) {
		t.Helper()
		assert.ErrorIs(t, err, want, "%s: %v", what, err)
		assert.Equal(t, requests, all, what)
		all = nil
	}
	object := "leases/" + prefix + "--worker--7"
	first, err := s.Put(t.Context(), "worker/7", "", nil)
	did("a first Put", err, nil, "POST leases")
	second, err := s.Put(t.Context(), "worker/7", first.Version, nil)
	did("a renewal", err, nil, "PATCH "+object)
	_, err = s.Put(t.Context(), "worker/7", first.Version, nil)
	did("a renewal that comes late", err, lease.ErrConflict, "PATCH "+object, "GET "+object)
	_, err = s.Get(t.Context(), "worker/7")
	did("Get", err, nil, "GET "+object)
	_, err = s.List(t.Context(), "worker/")
	did("List", err, nil, "GET leases with snowflake-ids/kind notin (history,mark,owner,store)")
	_, err = s.List(t.Context(), "")
	did("List of everything", err, nil, "GET leases")
	did("Delete", s.Delete(t.Context(), "worker/7", second.Version), nil, "GET "+object, "DELETE "+object)
	_, err = s.Put(t.Context(), "worker/7", second.Version, nil)
	did("a renewal of what was deleted", err, lease.ErrConflict, "PATCH "+object, "GET "+object)
}

// A holder's renewals keep labels and annotations that were added to an object, for example with
// kubectl.
func changedByOthers(t *testing.T, c *cluster) {
	prefix := servertest.NewSpace()
	s := open(t, c.Addr, in(prefix))
	e := servertest.Put(t, s, "worker/7", "", "value")
	c.change(t, prefix+"--worker--7", func(o *coordination.Lease) { o.Labels["team"] = "orders" })
	e = servertest.Put(t, s, "worker/7", e.Version, "another value")
	o := c.get(t, prefix+"--worker--7")
	assert.Equal(t, "orders", o.Labels["team"], "the labels are %v", o.Labels)
	assert.NoError(t, s.Delete(t.Context(), "worker/7", e.Version))
}

// Lists include entries whose labels were removed. Otherwise a watermark would pass IDs of their
// holders.
func labelsRemoved(t *testing.T, c *cluster) {
	prefix := servertest.NewSpace()
	s := open(t, c.Addr, in(prefix))
	for _, kind := range []string{"worker", "mark", "owner", "history", "n"} {
		e := servertest.Put(t, s, kind+"/7", "", "value")
		c.change(t, prefix+"--"+kind+"--7", func(o *coordination.Lease) { o.Labels = nil })
		e = servertest.Put(t, s, e.Key, e.Version, "another value")
		all := servertest.Must(s.List(t.Context(), kind+"/"))(t)
		assert.Equal(t, []lease.Entry{e}, all)
	}
	all := servertest.Must(s.List(t.Context(), ""))(t)
	assert.Len(t, all, 5)
}

// A Lease of another program is not changed, and counts neither as an entry nor as none.
func inTheWay(t *testing.T, c *cluster) {
	prefix := servertest.NewSpace()
	s := open(t, c.Addr, in(prefix))
	for _, name := range []string{prefix, "x" + prefix + "--worker--0", prefix + "--worker--7"} {
		c.create(t, name)
	}
	theirs := c.get(t, prefix+"--worker--7")
	_, getErr := s.Get(t.Context(), "worker/7")
	_, putErr := s.Put(t.Context(), "worker/7", "", nil)
	for _, err := range []error{getErr, putErr, s.Delete(t.Context(), "worker/7", "no-version")} {
		refused(t, err, lease.ErrBadRecord, "lease default/"+prefix+"--worker--7", "not created by this package",
			"delete it. Change Options.Prefix only while no process has a worker ID")
	}
	workers := servertest.Must(s.List(t.Context(), "worker/"))(t)
	require.Len(t, workers, 1)
	assert.Equal(t, "worker/7", workers[0].Key)
	assert.NotEmpty(t, workers[0].Version)
	assert.Nil(t, workers[0].Value, "an entry that cannot be read has no value")
	assert.Equal(t, theirs, c.get(t, theirs.Name))
	e := servertest.Put(t, s, "mark/8", "", "value")
	marks := servertest.Must(s.List(t.Context(), "mark/"))(t)
	assert.Equal(t, []lease.Entry{e}, marks)
}

// A Lease of this package without its annotation may be replaced, but only by a client that has
// read it in this state.
func annotationRemoved(t *testing.T, c *cluster) {
	prefix := servertest.NewSpace()
	s, name := open(t, c.Addr, in(prefix)), prefix+"--store"
	garble := func() lease.Entry {
		c.change(t, name, func(o *coordination.Lease) { delete(o.Annotations, "snowflake-ids/version") })
		e, err := s.Get(t.Context(), "store")
		refused(t, err, lease.ErrBadRecord, "lease default/"+name+" has lost its annotation snowflake-ids/version")
		return e
	}
	servertest.Put(t, s, "store", "", "value")
	c.change(t, name, func(o *coordination.Lease) { o.Annotations["team"] = "orders" })
	first := garble()
	c.change(t, name, func(o *coordination.Lease) { o.Labels["team"] = "orders" })
	_, err := s.Put(t.Context(), "store", first.Version, []byte("another value"))
	require.ErrorIs(t, err, lease.ErrConflict, "it has changed since")
	e, _ := s.Get(t.Context(), "store")
	servertest.Put(t, s, "store", e.Version, "another value")
	assert.Equal(t, "orders", c.get(t, name).Annotations["team"])

	e = garble()
	require.NoError(t, s.Delete(t.Context(), "store", e.Version))
	servertest.Put(t, s, "store", "", "value")
	_, err = s.Put(t.Context(), "store", e.Version, []byte("late"))
	require.ErrorIs(t, err, lease.ErrConflict, "it is another object")
	e = garble()
	c.change(t, name, func(o *coordination.Lease) { o.Labels = nil })
	_, err = s.Put(t.Context(), "store", e.Version, []byte("late"))
	require.ErrorIs(t, err, lease.ErrBadRecord, "it may be anybody's")
}

func wrongNamespace(t *testing.T, c *cluster) {
	s := open(t, c.Addr, &k8slease.Options{Namespace: "nowhere"})
	_, err := s.Put(t.Context(), "key", "", nil)
	refused(t, err, err, "lease nowhere/snowflake--key", "if there is no namespace nowhere, create it")
	assert.True(t, apierrors.IsNotFound(errors.Unwrap(err)))
}

func wrongToken(t *testing.T, c *cluster) {
	s := servertest.Must(k8slease.New(config(c.Addr, "wrong"), in("snowflake")))(t)
	_, err := s.Get(t.Context(), "key")
	refused(t, err, err, "lease default/snowflake--key", "does not know the token")
	assert.True(t, apierrors.IsUnauthorized(errors.Unwrap(err)))
}

// If the API server stores a value but answers that it is too busy, client-go repeats the request.
// The Put succeeds.
func sentTwice(t *testing.T, c *cluster) {
	var left atomic.Int64
	s := c.through(t, servertest.NewSpace(), func(send http.RoundTripper, req *http.Request) (*http.Response, error) {
		resp, err := send.RoundTrip(req)
		if err == nil && left.Add(-1) >= 0 {
			resp.Body.Close()
			resp = servertest.Answer(req, http.StatusTooManyRequests, http.Header{"Retry-After": {"0"}}, "")
		}
		return resp, err
	})
	left.Store(1)
	e := servertest.Put(t, s, "key", "", "value")
	left.Store(1)
	e = servertest.Put(t, s, "key", e.Version, "another value")
	got := servertest.Must(s.Get(t.Context(), "key"))(t)
	assert.Equal(t, e, got)
}

// Copies of a cloned machine may draw the same random version. Only one of them stores its value.
func sameVersion(t *testing.T, c *cluster) {
	s := c.through(t, servertest.NewSpace(), func(send http.RoundTripper, req *http.Request) (*http.Response, error) {
		if req.Method != http.MethodGet {
			mine, err := io.ReadAll(req.Body)
			if err != nil {
				return nil, err
			}
			other := req.Clone(req.Context())
			other.Body = io.NopCloser(bytes.NewReader(bytes.ReplaceAll(mine, []byte("value of one"), []byte("value of two"))))
			if resp, err := send.RoundTrip(other); err != nil || resp.Body.Close() != nil {
				return nil, err
			}
			req.Body = io.NopCloser(bytes.NewReader(mine))
		}
		return send.RoundTrip(req)
	})
	_, err := s.Put(t.Context(), "key", "", []byte("value of one"))
	refused(t, err, lease.ErrConflict)
	is, err := s.Get(t.Context(), "key")
	require.NoError(t, err, "%v, %v", is, err)
	require.Equal(t, "value of two", string(is.Value), "%v, %v", is, err)
	_, err = s.Put(t.Context(), "key", is.Version, []byte("another value of one"))
	refused(t, err, lease.ErrConflict)
}

// The API server's code for this error is the same as for another version.
func tooLarge(t *testing.T, c *cluster) {
	s := open(t, c.Addr, in(servertest.NewSpace()))
	e := servertest.Put(t, s, "key", "", "value")
	for key, old := range map[string]string{"key": e.Version, "other": ""} {
		_, err := s.Put(t.Context(), key, old, make([]byte, 300<<10))
		require.Error(t, err)
		assert.NotErrorIs(t, err, lease.ErrConflict)
	}
}

func changeBeforeDelete(t *testing.T, c *cluster) {
	prefix := servertest.NewSpace()
	other := open(t, c.Addr, in(prefix))
	var change func()
	s := c.through(t, prefix, func(send http.RoundTripper, req *http.Request) (*http.Response, error) {
		if req.Method == http.MethodDelete {
			change()
		}
		return send.RoundTrip(req)
	})
	old := servertest.Put(t, other, "key", "", "value")
	change = func() { servertest.Put(t, other, "key", old.Version, "another value") }
	refused(t, s.Delete(t.Context(), "key", old.Version), lease.ErrConflict)
	is, err := s.Get(t.Context(), "key")
	require.NoError(t, err, "%v, %v", is, err)
	assert.Equal(t, "another value", string(is.Value), "%v, %v", is, err)
	change = func() {
		assert.NoError(t, other.Delete(t.Context(), "key", is.Version))
	}
	refused(t, s.Delete(t.Context(), "key", is.Version), lease.ErrConflict)
}

// client-go allows 5 requests a second by default.
func TestRequestsHaveNoLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := unreachable.through(t, "any", func(_ http.RoundTripper, req *http.Request) (*http.Response, error) {
			return status(req, http.StatusNotFound, "NotFound"), nil
		})
		begun := time.Now()
		for range 100 {
			servertest.Must(s.Get(t.Context(), "key"))(t)
		}
		assert.Zero(t, time.Since(begun), "requests wait")
	})
}

// status returns a response of an API server.
func status(req *http.Request, code int, reason string) *http.Response {
	const body = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"code":%d}`
	return servertest.Answer(req, code, http.Header{"Content-Type": {"application/json"}}, fmt.Sprintf(body, reason, code))
}

// A label has at most 63 characters, and does not end with a hyphen.
func longKey(t *testing.T, c *cluster) {
	s := open(t, c.Addr, in(servertest.NewSpace()))
	key := strings.Repeat("k", 62) + "-1/2"
	e := servertest.Put(t, s, key, "", "value")
	all := servertest.Must(s.List(t.Context(), key[:65]))(t)
	assert.Equal(t, []lease.Entry{e}, all)
}

// If a list takes too long, the API server ends it with 410. Then List starts again, without the
// entries that it has read. Here a page has two entries.
func listExpires(t *testing.T, c *cluster) {
	space := servertest.NewSpace()
	pages := 0
	var before func()
	s := c.through(t, space, func(send http.RoundTripper, req *http.Request) (*http.Response, error) {
		if pages++; pages == 2 {
			before()
			return status(req, http.StatusGone, "Expired"), nil
		}
		query := req.URL.Query()
		if query.Has("limit") {
			query.Set("limit", "2")
			// The objects of other tests would make more pages.
			query.Set("labelSelector", "snowflake-ids/store="+space)
		}
		req = req.Clone(req.Context())
		req.URL.RawQuery = query.Encode()
		return send.RoundTrip(req)
	})
	other := open(t, c.Addr, in(space))
	var entries []lease.Entry
	for i := range 5 {
		entries = append(entries, servertest.Put(t, other, fmt.Sprint("n/", i), "", "value"))
	}
	before = func() { // n/0 and n/1 are on the first page
		entries[0] = servertest.Put(t, other, "n/0", entries[0].Version, "another value")
		assert.NoError(t, other.Delete(t.Context(), "n/1", entries[1].Version))
	}
	all, err := s.List(t.Context(), "n/")
	require.NoError(t, err)
	want := slices.Delete(entries, 1, 2)
	assert.Equal(t, want, all)
	assert.Equal(t, 3, pages)
	all, err = s.List(t.Context(), "n/") // of several pages, without an error
	require.NoError(t, err)
	assert.Equal(t, want, all)
}

func deadConnections(t *testing.T, c *cluster) {
	proxy := servertest.NewProxy(t, c.Addr)
	s := open(t, proxy.Addr(), in(servertest.NewSpace()))
	servertest.HalfOpenPool(t, proxy, s, func() {
		proxy.Delay(100 * time.Millisecond) // so that each has a connection
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				_, err := s.Get(t.Context(), "key")
				assert.NoError(t, err)
			})
		}
		all.Wait()
		proxy.Heal()
	})
}

// An API server whose etcd has no leader answers 500, and one that is stopping answers 503.
func TestServerThatFails(t *testing.T) {
	var code int
	s := unreachable.through(t, "any", func(_ http.RoundTripper, req *http.Request) (*http.Response, error) {
		return servertest.Answer(req, code, http.Header{"Content-Type": {"text/plain"}}, "etcdserver: no leader"), nil
	})
	for _, code = range []int{
		http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway,
		http.StatusServiceUnavailable, http.StatusGatewayTimeout,
	} {
		_, err := s.Get(t.Context(), "key")
		refused(t, err, lease.ErrAway, "lease default/any")
		_, err = s.Put(t.Context(), "key", "version", nil)
		refused(t, err, lease.ErrAway, "lease default/any")
	}
	s = unreachable.through(t, "any", func(http.RoundTripper, *http.Request) (*http.Response, error) {
		return nil, errors.New("http: server closed idle connection")
	})
	_, err := s.Get(t.Context(), "key")
	refused(t, err, lease.ErrAway, "lease default/any")
}

// client-go logs to standard error if a response is incomplete. The logger is the process's, so the
// test does not run in parallel.
func TestNothingIsLogged(t *testing.T) {
	var log bytes.Buffer
	defer klog.CaptureState().Restore()
	klog.LogToStderr(false)
	klog.SetOutput(&log)
	s := unreachable.through(t, "any", func(_ http.RoundTripper, req *http.Request) (*http.Response, error) {
		resp := servertest.Answer(req, http.StatusOK, nil, "")
		resp.Body = io.NopCloser(broken{})
		return resp, nil
	})
	_, getErr := s.Get(t.Context(), "key")
	_, listErr := s.List(t.Context(), "")
	_, putErr := s.Put(t.Context(), "key", "version", nil)
	for _, err := range []error{getErr, listErr, putErr} {
		refused(t, err, context.DeadlineExceeded)
	}
	klog.Flush()
	assert.LessOrEqual(t, log.Len(), 0, "it logs %s", &log)
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, context.DeadlineExceeded }

func TestInvalidOptionsAreRefused(t *testing.T) {
	any := config("127.0.0.1:1", "")
	for _, test := range []struct {
		config *rest.Config
		o      *k8slease.Options
		says   string
	}{
		{nil, in("a"), "the config is nil"},
		{any, nil, `Namespace "" is not`},
		{any, &k8slease.Options{Namespace: "A"}, `Namespace "A" is not`},
		{any, &k8slease.Options{Namespace: "../x"}, `Namespace "../x" is not`},
		{any, in("7"), `Prefix "7" is not`},
		{any, in("A"), `Prefix "A" is not`},
		{any, in("a-"), `Prefix "a-" is not`},
		{any, in("a--b"), `Prefix "a--b" is not`},
		{any, in("a/b"), `Prefix "a/b" is not`},
		{any, in(strings.Repeat("a", 41)), "is not 1 to 40"},
	} {
		s, err := k8slease.New(test.config, test.o)
		refused(t, err, lease.ErrInvalidOptions, test.says)
		assert.Nil(t, s, "%+v: there is a store", test.o)
	}
	for _, prefix := range []string{"a", "a-b2", strings.Repeat("a", 40)} {
		_, err := k8slease.New(any, in(prefix))
		assert.NoError(t, err)
	}
	assert.Nil(t, any.NextProtos, "New has changed the config")
}

func TestInClusterOutsideOfAPodIsRefused(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	s, err := k8slease.InCluster(nil)
	refused(t, err, rest.ErrNotInCluster)
	assert.Nil(t, s, "there is a store")
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
