// Package k8slease keeps the worker IDs of a fleet in Kubernetes: in Lease objects of its
// API server, which each pod can reach.
//
//	store, err := k8slease.InCluster(nil)
//	...
//	err = store.Create(ctx, 0) // does nothing if the store is there
//	...
//	l, err := lease.Acquire(ctx, store, nil)
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
//	snowflake-7-history  the earlier holders, and a sign that there has to be a record
//
// For people, a record's spec has the fields that kubectl shows of any Lease: the holder's
// name, the time of its last renewal, and the window in seconds. The store itself reads only
// the annotation snowflake-ids/record, which is JSON. Do not change it by hand.
//
// A renewal is one update, which names the resourceVersion that this process saw last. So if
// an update comes late, or from a holder that lost its worker ID, it changes nothing. An
// acquisition is a list of the namespace's Leases without histories, a get and an update.
//
// # How many renewals
//
// Each holder makes three renewals in a window. With [DefaultWindow], 1,000 pods make 30
// renewals a second together, each an update of some 2 kB. A long window has a price: if
// a pod ends without Release, nobody can have its worker ID for up to 100 s. So have a spare
// worker ID for each pod that may crash in that time. If a pod calls Release, its worker ID
// is free at once.
//
// If the window is 3 s, the default of other stores, 1,000 pods make 1,000 renewals a second.
// So set lease.Options.Window with care.
//
// # Time
//
// A holder is dead if it has not renewed for a window, by the API server's clock. The server
// tells its time with each answer, in whole seconds. The store compares several answers and
// knows the time to half a second at first, and better later. Snapshot.OwnClock is true:
// if a node's clock has leapt by more than a second, a lease notices it by this clock. If there
// are several API servers and their clocks differ, a window may look longer or shorter by the
// difference. The clocks only decide when a worker ID counts as free. IDs are unique whatever
// they read.
//
// # An API server that is away
//
// Holders issue IDs until their windows end. If the server answers 429 with Retry-After, the
// client tries again at that time, if the renewal has so much time left. If an answer is 429, or
// 500 or more, the error matches [lease.ErrAway], so lease.Acquire asks again. InCluster speaks
// HTTP/1.1, so when a request times out, its connection is given up. A clientset that you pass
// to [New] speaks HTTP/2, unless its config has TLSClientConfig.NextProtos:
// []string{"http/1.1"}. With HTTP/2 all requests share one connection, and if it is dead,
// client-go decides when to give it up.
//
// # A store that was wiped
//
// If the objects are deleted while holders issue IDs, nobody knows up to which time IDs were
// issued. So if the object "snowflake" is missing, or if a record is missing but its history
// is not, calls return an error that matches [lease.ErrWiped]. Holders issue IDs until their
// windows end, and newcomers get no worker ID. If other records are left, newcomers get other
// worker IDs, and so do the holders when their windows have ended. [Store.Create] waits until
// all windows must have ended, and then repairs the store. So if each pod calls Create when it
// starts, the next pod that starts ends the outage.
//
// To remove one worker ID, wait until its bound has passed, and delete its record and its
// history.
//
// # History
//
// The store keeps the last holders of each worker ID for [lease.Whois]: 192 KiB of JSON, which
// is some 600 holders of usual length. (An object may have 256 KiB of annotations.) If earlier
// holders are dropped, Record.Forgotten says up to which time.
//
// # Hazards
//
// HAZARD: if a cluster's etcd is restored from a backup, it has the bounds from the time of the
// backup, so IDs may repeat. Stop all holders before you restore. Start holders again only
// when the clock is past the last bound, a window after the last holder stopped.
//
// HAZARD: if a record is deleted together with its history, but the object "snowflake" is not,
// the worker ID looks as if it was never used. If its holder lives, its IDs can repeat until
// its window ends. (Kubernetes changes one object at a time. If a further object listed the
// used worker IDs, pods that start together would wait for each other.)
//
// HAZARD: if a store was wiped, its bounds are lost, and Create can only wait. If a holder's
// clock was ahead of the other clocks, or if Create is called with a shorter window than the
// fleet's, newcomers may repeat IDs.
//
// HAZARD: do not apply the object "snowflake" from a manifest. If it was deleted, the tool would
// put it back at once, and not wait until all windows have ended.
//
// HAZARD: all processes of a fleet must use one cluster, one namespace and one prefix. If they
// use two, two processes have the same worker ID.
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
	"sync/atomic"
	"time"

	coordination "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"

	"github.com/seed-5394e6b1/snowflake/lease"
)

// DefaultWindow is the window of lease.Acquire and [Store.Create] if the window that you give
// them is 0. With it, 1,000 holders make 30 renewals a second together.
const DefaultWindow = 100 * time.Second

// Options are the settings of New and InCluster. The zero value, and nil, consist entirely
// of defaults.
type Options struct {
	// Namespace is the namespace of the objects. All processes that share worker IDs
	// must use the same. If it is empty, InCluster takes the pod's namespace, and New
	// returns an error.
	Namespace string

	// Prefix begins the names of all objects: at most 40 lower-case letters, digits and
	// hyphens, with a letter first and no hyphen last. Empty: "snowflake".
	Prefix string
}

// Store is a [lease.Store] in a Kubernetes cluster. It may be used by any number of
// goroutines and leases.
type Store struct {
	leases    client.LeaseInterface
	requests  rest.Interface // for what leases has no method for
	host      string         // URL of the API server
	transport http.RoundTripper
	namespace string
	prefix    string
	clock     *clock
	limit     int   // how many bytes of history a worker ID may have
	page      int64 // how many objects the API server returns at a time

	// doubtful is whether a record was found to be gone. Then Load looks for all that are gone.
	doubtful atomic.Bool

	mu    sync.Mutex
	saved map[int]*coordination.Lease // by worker: the object that this store saved last, with its resourceVersion
}

var (
	_ lease.Historian = (*Store)(nil)
	_ lease.Locator   = (*Store)(nil)
	_ lease.Windower  = (*Store)(nil)
)

// namespaceFile has the namespace of a pod.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// InCluster returns the store in the cluster of this pod, with the rights of the pod's service
// account. If this process is not in a pod, the error matches [rest.ErrNotInCluster].
// InCluster makes no requests: see [New].
func InCluster(opts *Options) (*Store, error) {
	config, err := rest.InClusterConfig()
	switch {
	case errors.Is(err, rest.ErrNotInCluster):
		return nil, fmt.Errorf("k8slease: this process is not in a pod: %w", err)
	case err != nil:
		return nil, fmt.Errorf("k8slease: the pod has no token of a service account: %w: is automountServiceAccountToken false?", err)
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

// New returns the store in a clientset's cluster. [Store.Create] makes the store. New makes no
// requests: if the API server cannot be reached, or refuses the client, Create or Acquire
// returns the error. If the clientset is nil or a fake, or if the options are not valid, the
// error matches [lease.ErrInvalidOptions].
//
// The store uses the clientset's connections and credentials. It does not use the clientset's
// limit of requests, because the limit would delay renewals.
//
// Errors name the object, and match the functions of k8s.io/apimachinery's package errors, such
// as IsForbidden. If a Lease has a name that the store needs, but this package did not make it,
// the error matches [lease.ErrBadRecord], and the Lease is not changed; lease.Acquire logs a
// warning and takes another worker ID if there is one. If the store was wiped or never created,
// the error matches [lease.ErrWiped].
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
		page:      maxPage,
		saved:     map[int]*coordination.Lease{},
	}
	if rc.Client != nil && rc.Client.Transport != nil {
		s.transport = rc.Client.Transport
	}
	return s, s.connect()
}

// connect makes a client that uses the transport, and shows the clock each response.
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
	s.leases, s.requests = c.Leases(s.namespace), c.RESTClient()
	return nil
}

// DefaultWindow returns the constant of that name, which lease.Acquire takes if its options have no
// window.
func (s *Store) DefaultWindow() time.Duration { return DefaultWindow }

// Each object has a label that names its store, and a label that says what it is.
const (
	storeLabel = "snowflake-ids/store"
	kindLabel  = "snowflake-ids/kind"
	usedLabel  = "snowflake-ids/used" // of a history: there was a record, so there has to be one

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

// get returns an object, or nil if it does not exist.
func (s *Store) get(ctx context.Context, name string) (*coordination.Lease, error) {
	o, err := s.leases.Get(ctx, name, meta.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return o, s.explain(ctx, name, err)
}

// explain adds the object's name to an error and, if it is known, what to do.
func (s *Store) explain(ctx context.Context, name string, err error) error {
	if err == nil {
		return nil
	}
	advice := ""
	switch {
	case apierrors.IsForbidden(err):
		advice = ": the service account needs get, list, create and update on leases of coordination.k8s.io in namespace " + s.namespace +
			"; deploy/kubernetes/rbac.yaml has a Role and a RoleBinding"
	case apierrors.IsUnauthorized(err):
		advice = ": the API server " + s.host + " does not know the token: it may have expired, or be of another cluster"
	case apierrors.IsNotFound(err):
		advice = ": is there a namespace " + s.namespace + "? kubectl create namespace " + s.namespace + " makes it"
	case away(err):
		err = fmt.Errorf("%w: %w", lease.ErrAway, err)
	case ctx.Err() != nil:
		if !errors.Is(err, ctx.Err()) { // client-go's limiter and retries have errors of their own
			err = fmt.Errorf("%w: %w", ctx.Err(), err)
		}
	}
	return fmt.Errorf("k8slease: %s: %w%s", s.place(name), err, advice)
}

// away reports whether the API server says that it cannot answer now, as it does while it starts, while
// its etcd has no leader, or if it has too much to do.
func away(err error) bool {
	status := apierrors.APIStatus(nil)
	return errors.As(err, &status) && (status.Status().Code >= 500 || status.Status().Code == http.StatusTooManyRequests)
}

// wiped returns the error for a missing object.
func (s *Store) wiped(name, why string) error {
	return fmt.Errorf("k8slease: %w: there is no %s%s: see Store.Create, which each process may call when it starts", lease.ErrWiped, s.place(name), why)
}

// notOurs returns the error for an object that has a name of the store but was not made by it.
func (s *Store) notOurs(name string) error {
	return fmt.Errorf("k8slease: %w: %s was not made by this package: delete it, or choose another Options.Prefix", lease.ErrBadRecord, s.place(name))
}
