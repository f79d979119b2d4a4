//go:build unix && go1.25

package zklease_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake/internal/lab/servertest"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/zklease"
)

// If an operator edits the data with zkCli.sh set, the entry has another version.
func entryEditedByHandHasAnotherVersion(t *testing.T, addr string) {
	conn, o := connect(t, addr), newRoot()
	s := open(t, conn, o)
	old := servertest.Put(t, s, "a", "", "value")
	data, _, err := conn.Get(o.Root + "/a")
	require.NoError(t, err)
	servertest.Must(conn.Set(o.Root+"/a", append(data, " edited"...), -1))(t)
	_, err = s.Put(t.Context(), "a", old.Version, nil)
	require.ErrorIs(t, err, lease.ErrConflict)
	e := servertest.Must(s.Get(t.Context(), "a"))(t)
	require.Equal(t, "value edited", string(e.Value))
	servertest.Put(t, s, "a", e.Version, "value")
}

func wrongCredentialsAreNamed(t *testing.T, addr string) {
	o := newRoot()
	o.ACL = zk.DigestACL(zk.PermAll, "app", "secret")
	right := connect(t, addr)
	require.NoError(t, right.AddAuth("digest", []byte("app:secret")))
	e := servertest.Put(t, open(t, right, o), "a/b", "", "value")
	servertest.Put(t, open(t, right, o), "a/b", e.Version, "value")

	for name, auth := range map[string]string{"wrong": "app:guess", "none": ""} {
		conn := connect(t, addr)
		if auth != "" {
			require.NoError(t, conn.AddAuth("digest", []byte(auth)))
		}
		for method, call := range calls(open(t, conn, o)) {
			err := call(t.Context())
			require.ErrorIs(t, err, zk.ErrNoAuth, name, method)
			require.ErrorContains(t, err, "zklease: "+o.Root+"/", name, method)
		}
		_, err := open(t, conn, &zklease.Options{Root: o.Root + "/below"}).Put(t.Context(), "a", "", nil)
		require.ErrorIs(t, err, zk.ErrNoAuth, name)
	}
}

// calls maps each method's name to a call, for a store with the entry a/b.
func calls(s *zklease.Store) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"Now":         func(ctx context.Context) error { _, err := s.Now(ctx); return err },
		"Get":         func(ctx context.Context) error { _, err := s.Get(ctx, "a/b"); return err },
		"List":        func(ctx context.Context) error { _, err := s.List(ctx, "a/"); return err },
		"a first Put": func(ctx context.Context) error { _, err := s.Put(ctx, "a/c", "", nil); return err },
	}
}

// A list with an entry that the client may not read is an error.
func unreadableEntryIsAnError(t *testing.T, addr string) {
	conn, o := connect(t, addr), newRoot()
	s := open(t, conn, o)
	servertest.Put(t, s, "a/b", "", "value")
	servertest.Must(conn.SetACL(o.Root+"/a/b", zk.DigestACL(zk.PermAll, "app", "secret"), -1))(t)
	_, err := s.Get(t.Context(), "a/b")
	require.ErrorIs(t, err, zk.ErrNoAuth)
	_, err = s.List(t.Context(), "a/")
	require.ErrorIs(t, err, zk.ErrNoAuth)
}

// An entry may be removed between the two requests of a read.
func entryThatComesAndGoesIsReadable(t *testing.T, addr string) {
	o := newRoot()
	proxy := servertest.NewProxy(t, addr)
	writer, reader := open(t, connect(t, addr), o), open(t, connect(t, proxy.Addr()), o)
	servertest.Put(t, reader, "b", "", "value")
	proxy.Delay(2 * time.Millisecond)
	var wg sync.WaitGroup
	var over atomic.Bool
	wg.Go(func() {
		for !over.Load() {
			e, err := writer.Put(t.Context(), "a", "", nil)
			if err == nil {
				err = writer.Delete(t.Context(), "a", e.Version)
			}
			assert.NoError(t, err)
			time.Sleep(10 * time.Millisecond)
		}
	})
	for range 60 {
		_, err := reader.Get(t.Context(), "a")
		assert.NoError(t, err)
	}
	over.Store(true)
	wg.Wait()
}

// To ZooKeeper, the data version -1 means any version.
func versionMinusOneIsRefused(t *testing.T, addr string) {
	s := open(t, connect(t, addr), newRoot())
	e := servertest.Put(t, s, "a", "", "value")
	nonce, _, _ := strings.Cut(e.Version, "-")
	any := nonce + "--1"
	_, err := s.Put(t.Context(), "a", any, nil)
	require.ErrorIs(t, err, lease.ErrConflict)
	require.ErrorIs(t, s.Delete(t.Context(), "a", any), lease.ErrConflict)
}

func rootMayBeTheTop(t *testing.T, addr string) {
	conn, dir := connect(t, addr), servertest.NewSpace()
	s := open(t, conn, &zklease.Options{Root: "/"})
	e := servertest.Put(t, s, dir+"/a", "", "value")
	there, _, err := conn.Exists("/" + dir + "/a")
	require.NoError(t, err)
	require.True(t, there)
	require.Equal(t, []lease.Entry{e}, servertest.Must(s.List(t.Context(), dir+"/"))(t))
}

func invalidArgumentsAreRefused(t *testing.T, addr string) {
	_, err := zklease.New(nil, nil)
	require.ErrorIs(t, err, lease.ErrInvalidOptions)
	require.ErrorContains(t, err, "the conn is nil")
	conn := connect(t, addr)
	for _, root := range []string{"snowflake", "/a\x00"} {
		_, err := open(t, conn, &zklease.Options{Root: root}).Get(t.Context(), "a")
		require.ErrorIs(t, err, zk.ErrInvalidPath, root)
	}
	_, err = open(t, conn, &zklease.Options{Root: newRoot().Root, ACL: []zk.ACL{}}).Get(t.Context(), "a")
	require.ErrorIs(t, err, zk.ErrInvalidACL)
}

// The times are those of the server's clock, and not of this host's clock when the reply arrives.
func nowIsTheServersTime(t *testing.T, addr string) {
	proxy, o := servertest.NewProxy(t, addr), newRoot()
	conn := connectFor(t, proxy.Addr(), time.Minute)
	s := open(t, conn, o)
	e := servertest.Put(t, s, "a", "", "value")
	_, stat, err := conn.Get(o.Root + "/a")
	require.NoError(t, err)
	require.Equal(t, stat.Mtime, e.Time.UnixMilli())
	servertest.Must(s.Now(t.Context()))(t)
	proxy.Delay(100 * time.Millisecond)
	now := servertest.Must(s.Now(t.Context()))(t)
	_, stat, err = conn.Get(o.Root + "/_clock")
	require.NoError(t, err)
	require.Equal(t, stat.Mtime, now.UnixMilli())
}

// If a session ends during a read, the server of the new session may lag.
func readInTwoSessionsIsRefused(t *testing.T, addr string) {
	proxy := servertest.NewProxy(t, addr)
	const session = 500 * time.Millisecond
	conn := connectFor(t, proxy.Addr(), session)
	s := open(t, conn, newRoot())
	connected := func() error {
		if conn.State() != zk.StateHasSession {
			return zk.ErrNoServer
		}
		return nil
	}
	// On a busy machine the session may expire.
	servertest.Await(t, func() error { return s.UpToDate(t.Context(), func() {}) })
	err := s.UpToDate(t.Context(), func() {
		for was := conn.SessionID(); conn.SessionID() == was; servertest.Await(t, connected) {
			proxy.Reset()
			time.Sleep(2 * session)
			proxy.Heal()
		}
	})
	require.ErrorIs(t, err, lease.ErrAway)
	require.ErrorIs(t, err, zk.ErrSessionExpired)
}

// Package zk does not write to standard error: the errors have the cause.
func TestConnectIsQuiet(t *testing.T) {
	var lines bytes.Buffer
	log.SetOutput(&lines)
	conn, err := zklease.Connect([]string{"127.0.0.1:1"}, time.Second)
	require.NoError(t, err)
	s := open(t, conn, nil)
	servertest.Await(t, func() error { // on a busy machine the time may end before the first refusal
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		if _, err := s.Get(ctx, "a"); !errors.Is(err, syscall.ECONNREFUSED) {
			return fmt.Errorf("it does not say why: %w", err)
		}
		return nil
	})
	conn.Close()
	log.SetOutput(os.Stderr)
	require.Empty(t, lines.String())
}

// Package zk allows the handshake ten times the time of another reply. Later replies have package
// zk's time.
func TestDialGivesUpAServerThatHangsInTheHandshake(t *testing.T) {
	t.Parallel()
	l := servertest.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	const timeout = 200 * time.Millisecond
	for _, answers := range []bool{false, true} {
		conn := servertest.Must(zklease.Dial("tcp", l.Addr().String(), timeout))(t)
		defer conn.Close()
		server := servertest.Must(l.Accept())(t)
		defer server.Close()
		if answers {
			servertest.Must(server.Write([]byte("a")))(t)
			servertest.Must(conn.Read(make([]byte, 1)))(t)
		}
		begun := time.Now()
		require.NoError(t, conn.SetReadDeadline(begun.Add(20*timeout)))
		_, err := conn.Read(make([]byte, 1))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.Equal(t, answers, time.Since(begun) >= 20*timeout)
	}
}

func closedConnectionIsAnError(t *testing.T, addr string) {
	conn := connect(t, addr)
	s := open(t, conn, newRoot())
	e := servertest.Put(t, s, "a", "", "value")
	conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := s.Put(ctx, "a", e.Version, nil)
	require.Error(t, err)
	require.NotErrorIs(t, err, lease.ErrConflict)
}

// requests returns the number of this process's goroutines with a request that its caller gave up.
func requests() int {
	stacks := make([]byte, 8<<20)
	return strings.Count(string(stacks[:runtime.Stack(stacks, true)]), "zklease.call[...].func1(")
}

// If the server does not answer, calls end with their contexts. Their requests end with the
// connection.
func callsEndIfTheServerDoesNotAnswer(t *testing.T, addr string) {
	proxy := servertest.NewProxy(t, addr)
	// The connection lasts for two thirds of the session, even on a busy machine longer than the calls.
	s := open(t, connectFor(t, proxy.Addr(), 9*time.Second), newRoot())
	servertest.Put(t, s, "a", "", "value")
	proxy.Stall()
	var all sync.WaitGroup
	for name, call := range calls(s) {
		all.Go(func() {
			for range 40 {
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
				assert.ErrorIs(t, call(ctx), context.DeadlineExceeded, name)
				cancel()
			}
		})
	}
	all.Wait()
	assert.Greater(t, requests(), 60)
	// Without a session, no more requests are made.
	require.Eventually(t, func() bool { return requests() < 60 }, time.Minute, 100*time.Millisecond)
	proxy.Heal()
	require.Eventually(t, func() bool {
		_, err := s.Get(t.Context(), "a")
		return err == nil
	}, 2*time.Minute, 20*time.Millisecond)
}

func BenchmarkList(b *testing.B) {
	s := open(b, connect(b, start(b, 1).Addrs()), nil)
	for i := range 1024 {
		servertest.Must(s.Put(b.Context(), fmt.Sprint("a/", i), "", make([]byte, 500)))(b)
	}
	for b.Loop() {
		require.Len(b, servertest.Must(s.List(b.Context(), "a/"))(b), 1024)
	}
}
