// Package k8slease keeps the worker IDs of a fleet in Kubernetes: in Lease objects of its
// API server, which each pod can reach.
//
//	store, err := k8slease.InCluster(nil)
//	...
//	err = store.Create(ctx, 0) // does nothing if the store is there
//	...
//	l, err := store.Acquire(ctx, nil)
//	...
//	defer l.Release(context.Background())
//	gen, err := snowflake.NewLeased(l, nil)
//
// The pod's service account needs the rights get, list, create and update on leases of the
// group coordination.k8s.io in one namespace, and nothing else.
//
// # What is stored
//
// All objects are coordination.k8s.io/v1 Leases in one namespace. With the default prefix,
// and worker ID 7:
//
//	snowflake            the store: when Create made it
//	snowflake-7          the record of worker ID 7; it stays when the holder has gone
//	snowflake-7-history  holders of before, and a sign that there has to be a record
//
// A record's spec has what kubectl shows of any Lease: the holder's name, when it last
// renewed, for how many seconds that holds. It is for people. What counts is in the
// annotation snowflake-ids/record, as JSON. Do not change it by hand.
//
// A renewal is one update, which names the resourceVersion that this process saw last. So
// an update that comes late, or from a holder that lost its worker ID, changes nothing. To
// acquire takes a list of the records, a get and an update.
//
// # How many renewals
//
// Each holder makes three renewals in a window. With [DefaultWindow], 1,000 pods make 30
// renewals a second together, each an update of some 2 kB. That has a price after a crash:
// a pod that ends without Release leaves its worker ID to nobody for up to 100 s. So
// keep as many worker IDs to spare as pods may crash in that time. After a clean end, a
// worker ID is free at once.
//
// [Store.Acquire] takes DefaultWindow. lease.Acquire would take 3 s, with which
// 1,000 pods make 1,000 renewals a second.
//
// # Time
//
// A holder is dead if it has not renewed for a window, by the API server's clock. The server
// tells its time with each answer, in whole seconds. The store compares several answers and
// knows the time to half a second at first, and better later. Snapshot.OwnClock is true:
// this clock tells a pod whose node's clock has leapt, to within a second. If several API
// servers have clocks that differ, a window may look longer or shorter by as much. All of
// that decides only when a worker ID is taken for free; whether IDs are unique does not
// depend on it.
//
// # An API server that is away
//
// IDs go on to the end of the window. The client tries again when the server says
// so (429, Retry-After), within the time that a renewal has. InCluster speaks HTTP/1.1, so
// that a connection that hangs is given up with its request. A clientset that is given to
// [New] speaks HTTP/2 unless its config has TLSClientConfig.NextProtos: []string{"http/1.1"};
// then it is up to client-go when a dead connection, which all requests share, is given up.
//
// # A store that was wiped
//
// If the objects are deleted while IDs are being issued, nobody knows any more up to when
// they were issued. So a store without the object "snowflake", or a record that is gone
// although its history is there, is an error that matches [lease.ErrWiped]. Holders go on
// to the end of their windows, and newcomers get nothing. [Store.Create] makes the store
// whole again, when all windows must have ended. So if each pod calls Create when it starts,
// the next pod that starts ends the outage.
//
// To remove one worker ID, wait until its bound has passed, and delete its record and its
// history.
//
// # History
//
// For [lease.Whois] the last holders of each worker ID are kept, some 600 of usual length:
// 192 KiB of JSON, because an object may have 256 KiB of annotations. What is dropped is
// noted in Record.Forgotten.
//
// # Hazards
//
// HAZARD: a cluster whose etcd is restored from a backup has the bounds of that time, and
// IDs could be issued twice. Stop all holders before, and start none until the clock is
// past the last bound: a window after they stopped.
//
// HAZARD: a record that is deleted together with its history, but not the object
// "snowflake", looks as if it was never used. If its holder lives, its IDs can be repeated
// until its window ends.
//
// HAZARD: a store that was wiped has lost the bounds, and Create goes by time instead. If a
// holder's clock was ahead of the others', or Create is called with a shorter window than
// the fleet's, newcomers may repeat IDs.
//
// HAZARD: do not apply the object "snowflake" from a manifest: a tool that puts back what was
// deleted would not wait until all windows have ended.
//
// HAZARD: a fleet has one cluster, one namespace and one prefix. Spread over two, it has each
// worker ID twice.
package k8slease

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	coordination "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"

	"github.com/seed-5394e6b1/snowflake/lease"
)

// DefaultWindow is the window that [Store.Acquire] and [Store.Create] take if they are given
// none: with it, 1,000 holders make 30 renewals a second together.
const DefaultWindow = 100 * time.Second

// Options are the settings of New and InCluster. The zero value, and nil, consist entirely
// of defaults.
type Options struct {
	// Namespace is where the objects are. All processes that share worker IDs have the
	// same. Empty: the pod's own for InCluster; New needs one.
	Namespace string

	// Prefix is what the objects' names begin with: lower-case letters, digits and
	// hyphens, 40 at most, with a letter first and no hyphen last. Empty: "snowflake".
	Prefix string
}

// Store is a [lease.Store] in a Kubernetes cluster. It may be used by any number of
// goroutines and leases.
type Store struct {
	leases    client.LeaseInterface
	host      string // URL of the API server
	transport http.RoundTripper
	namespace string
	prefix    string
	clock     *clock
	limit     int // how many bytes of history a worker ID may have

	mu    sync.Mutex
	saved map[int]*coordination.Lease // by worker: what this store saved last, with its resourceVersion
}

var (
	_ lease.Historian = (*Store)(nil)
	_ lease.Locator   = (*Store)(nil)
)

// namespaceFile has the namespace of a pod.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// InCluster returns the store of the cluster that this process is a pod of, with the rights
// of the pod's service account. Outside of a pod, the error matches [rest.ErrNotInCluster].
// It asks for nothing yet: see [New].
func InCluster(opts *Options) (*Store, error) {
	config, err := rest.InClusterConfig()
	if err != nil {
		return nil, fmt.Errorf("k8slease: %w", err)
	}
	return inCluster(config, namespaceFile, opts)
}

func inCluster(config *rest.Config, namespaceFile string, opts *Options) (*Store, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.Namespace == "" {
		b, err := os.ReadFile(namespaceFile)
		if err != nil {
			return nil, fmt.Errorf("k8slease: %w: Namespace is empty, and the pod's is not known: %w", lease.ErrInvalidOptions, err)
		}
		o.Namespace = strings.TrimSpace(string(b))
	}
	config.NextProtos = []string{"http/1.1"} // a connection that hangs ends with its request
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("k8slease: %w", err)
	}
	return New(clientset, &o)
}

var (
	goodPrefix    = regexp.MustCompile(`^[a-z]([-a-z0-9]{0,38}[a-z0-9])?$`)
	goodNamespace = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
)

// New returns the store that is kept in a clientset's cluster, where [Store.Create] has made
// it. New asks for nothing yet: whether the API server can be reached, and lets the client
// in, shows at Create or Acquire. If the clientset is nil or a fake one, or the options are
// not valid, the error matches [lease.ErrInvalidOptions].
//
// The store takes the clientset's connections and credentials, and not its client-side limit
// of requests, which would delay renewals.
//
// Errors name the object, and match those of package errors of k8s.io/apimachinery, such as
// IsForbidden. A Lease that is in the way and was not made by this package is a
// [lease.ErrBadRecord], and is left as it is. A store that was wiped, or never created, is a
// [lease.ErrWiped].
func New(clientset kubernetes.Interface, opts *Options) (*Store, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.Prefix == "" {
		o.Prefix = "snowflake"
	}
	invalid := func(format string, args ...any) error {
		return fmt.Errorf("k8slease: %w: %s", lease.ErrInvalidOptions, fmt.Sprintf(format, args...))
	}
	switch {
	case clientset == nil:
		return nil, invalid("the clientset is nil")
	case !goodNamespace.MatchString(o.Namespace):
		return nil, invalid("Namespace %q is not the name of a namespace", o.Namespace)
	case !goodPrefix.MatchString(o.Prefix):
		return nil, invalid("Prefix %q is not 1 to 40 lower-case letters, digits and hyphens, with a letter first and no hyphen last", o.Prefix)
	}
	rc, ok := clientset.CoordinationV1().RESTClient().(*rest.RESTClient)
	if !ok || rc == nil {
		return nil, invalid("the clientset has no connection to an API server: it is a %T", clientset)
	}
	s := &Store{
		host:      strings.TrimSuffix(rc.Get().AbsPath("/").URL().String(), "/"),
		transport: http.DefaultTransport,
		namespace: o.Namespace,
		prefix:    o.Prefix,
		clock:     newClock(),
		limit:     maxHistory,
		saved:     map[int]*coordination.Lease{},
	}
	if rc.Client != nil && rc.Client.Transport != nil {
		s.transport = rc.Client.Transport
	}
	return s, s.connect()
}

// connect makes a client that uses the transport, and shows the clock what comes.
func (s *Store) connect() error {
	const protobuf = "application/vnd.kubernetes.protobuf"
	c, err := client.NewForConfigAndClient(&rest.Config{
		Host:          s.host,
		QPS:           -1, // no limit
		ContentConfig: rest.ContentConfig{ContentType: protobuf, AcceptContentTypes: protobuf + ",application/json"},
	}, &http.Client{Transport: dated{s.transport, s.clock}})
	if err != nil {
		return fmt.Errorf("k8slease: %w", err)
	}
	s.leases = c.Leases(s.namespace)
	return nil
}

// Acquire is [lease.Acquire] with [DefaultWindow] if opts has no window.
func (s *Store) Acquire(ctx context.Context, opts *lease.Options) (*lease.Lease, error) {
	var o lease.Options
	if opts != nil {
		o = *opts
	}
	if o.Window == 0 {
		o.Window = DefaultWindow
	}
	return lease.Acquire(ctx, s, &o)
}

// Each object has a label that names its store, and one that says what it is.
const (
	storeLabel = "snowflake-ids/store"
	kindLabel  = "snowflake-ids/kind"

	kindStore   = "store"
	kindRecord  = "record"
	kindHistory = "history"
)

func (s *Store) recordName(worker int) string  { return s.prefix + "-" + strconv.Itoa(worker) }
func (s *Store) historyName(worker int) string { return s.recordName(worker) + "-history" }

// Locate returns the namespace and name of a worker ID's Lease.
func (s *Store) Locate(worker int) string { return s.place(s.recordName(worker)) }

func (s *Store) place(name string) string { return "lease " + s.namespace + "/" + name }

// object returns a new object.
func (s *Store) object(name, kind string) *coordination.Lease {
	return &coordination.Lease{ObjectMeta: meta.ObjectMeta{
		Name: name, Namespace: s.namespace,
		Labels:      map[string]string{storeLabel: s.prefix, kindLabel: kind},
		Annotations: map[string]string{},
	}}
}

// get returns an object, or nil if there is none.
func (s *Store) get(ctx context.Context, name string) (*coordination.Lease, error) {
	o, err := s.leases.Get(ctx, name, meta.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return o, s.explain(ctx, name, err)
}

// explain says which object an error is about and, if it can be told, what to do.
func (s *Store) explain(ctx context.Context, name string, err error) error {
	if err == nil {
		return nil
	}
	advice := ""
	switch {
	case apierrors.IsForbidden(err):
		advice = ": the service account needs get, list, create and update on leases of coordination.k8s.io in namespace " + s.namespace
	case apierrors.IsUnauthorized(err):
		advice = ": the API server does not know the token"
	case apierrors.IsNotFound(err):
		advice = ": is there a namespace " + s.namespace + "?"
	case ctx.Err() != nil:
		if !errors.Is(err, ctx.Err()) { // client-go's limiter and retries have errors of their own
			err = fmt.Errorf("%w: %w", ctx.Err(), err)
		}
	}
	return fmt.Errorf("k8slease: %s: %w%s", s.place(name), err, advice)
}

// wiped says that an object is not there.
func (s *Store) wiped(name, why string) error {
	return fmt.Errorf("k8slease: %w: there is no %s%s: see Store.Create", lease.ErrWiped, s.place(name), why)
}

// notOurs says that an object is in the way.
func (s *Store) notOurs(name string) error {
	return fmt.Errorf("k8slease: %w: %s was not made by this package: delete it, or choose another Options.Prefix", lease.ErrBadRecord, s.place(name))
}
