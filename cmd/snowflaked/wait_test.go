//go:build unix && go1.25

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/command"
	"github.com/seed-5394e6b1/snowflake/internal/lab/servertest"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// While it waits for a worker ID, the server answers probes and says what it waits for; afterwards
// the same connections get IDs. The store is an empty Redis, a Redis that does not run, and one
// that never answers.
func TestServerAnswersWhileItWaits(t *testing.T) {
	t.Parallel()
	empty, _ := servertest.Redis(t)
	full, _ := servertest.Redis(t, "--maxmemory", "1", "--maxmemory-policy", "noeviction")
	silent := servertest.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer silent.Close()
	for store, says := range map[string]string{
		"redis://" + empty: "the store is new, or has lost entries",
		fmt.Sprint("redis://127.0.0.1:", servertest.Port(t)): "no worker ID could be acquired yet: connection refused",
		"redis://" + full:                      "no worker ID could be acquired yet: the store answers with OOM",
		"redis://" + silent.Addr().String():    "the store has not answered yet|no worker ID could be acquired yet",
		"etcd://u:p@" + silent.Addr().String(): "the store has not answered yet|cannot be opened yet: the store does not answer in time",
	} {
		for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
			p := launch(t, nil, []string{"SNOWFLAKED_STORE=" + store}, "--admin", "127.0.0.1:0", "--window", "1s")
			admin := "http://" + p.awaitLog("probes are answered")["address"].(string)
			taking := p.awaitLog("taking a worker ID: if the store is away, or has no entries, it takes minutes; /readyz says what it waits for")
			main := "http://" + taking["address"].(string)
			for _, url := range []string{admin, main} {
				status, text, _ := get(t, http.DefaultClient, url+"/healthz")
				assert.Equal(t, 200, status, text)
				await(t, says, func() bool {
					status, text, _ = get(t, http.DefaultClient, url+"/readyz")
					waits := strings.Contains(text, "waits for a worker ID, for ")
					return waits && assert.ObjectsAreEqual(503, status) && matches(says, text)
				})
				assert.NotContains(t, text, "127.0.0.1")
				_, text, _ = get(t, http.DefaultClient, url+"/metrics")
				assert.Regexp(t, `\nsnowflake_server_waiting_seconds [0-9.e-]*[1-9]`, text)
			}
			status, text, header := get(t, http.DefaultClient, main+"/id")
			assert.Equal(t, 503, status, text)
			assert.Equal(t, "1", header.Get("Retry-After"))
			assert.Nil(t, p.logged("serving"))
			p.signal(sig)
			p.ended()
		}
	}
}

func matches(any, text string) bool {
	for part := range strings.SplitSeq(any, "|") {
		if strings.Contains(text, part) {
			return true
		}
	}
	return false
}

// After a signal, a store that hangs delays the program by at most stopTime.
func TestStopDoesNotWaitForAStoreThatHangs(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer silent.Close()
	hangs := make(chan struct{})
	t.Cleanup(func() { close(hangs) })
	failed := make(chan error, 1)
	failed <- net.ErrClosed
	c := settings(t, map[string]string{"SNOWFLAKED_STORE": "redis://" + silent.Addr().String()})
	_, err = c.acquireUnless(t.Context(), failed, new(waiting))
	assert.ErrorIs(t, err, net.ErrClosed)
}

// systemd is told when the program issues IDs, and that it stops.
func TestSystemdIsTold(t *testing.T) {
	t.Parallel()
	for _, abstract := range []bool{false, true} {
		name := filepath.Join(t.TempDir(), "notify")
		if abstract {
			name = "@" + name
		}
		socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
		require.NoError(t, err)
		defer socket.Close()
		told := func() string {
			b := make([]byte, 4096)
			_ = socket.SetReadDeadline(time.Now().Add(patience))
			n := servertest.Must(socket.Read(b))(t)
			return string(b[:n])
		}
		dir := t.TempDir()
		require.NoError(t, lease.Init(t.Context(), lease.File(dir), snowflake.DefaultLayout()))
		p := start(t, []string{"NOTIFY_SOCKET=" + name}, "--store", "file:"+dir)
		assert.Equal(t, "READY=1\nSTATUS=issues IDs", told())
		p.signal(syscall.SIGTERM)
		assert.Equal(t, "STOPPING=1", told())
		p.ended()
	}
}

// The public text has the message, the wait and the kind of the error. It does not name users,
// databases or hosts.
func TestWaitingShowsNoSecrets(t *testing.T) {
	w := new(waiting)
	log := slog.New(listening{slog.NewTextHandler(io.Discard, nil), w}).With("owner", "hidden")
	log.Warn("lease: the store has no entries", "wait", 3*time.Minute, "error", "hidden", "next", "hidden")
	log.Warn("another: hidden")
	assert.Regexp(t, "^the store has no entries; it takes 3m0s from [-0-9T:]+Z on$", w.text())
	for says, err := range map[string]error{
		"the log says why": errors.New("hidden"),
		"the store cannot answer now; the log says more":  fmt.Errorf("%w: hidden", lease.ErrAway),
		"all of them are held; the log names the holders": fmt.Errorf("hidden: %w", &lease.ExhaustedError{}),
		"the store refuses this client":                   fmt.Errorf("%w: hidden", lease.ErrRefused),
		"the store's name does not resolve":               &net.DNSError{Name: "hidden"},
		"connection refused":                              &net.OpError{Op: "dial", Net: "hidden", Err: syscall.ECONNREFUSED},
		"the store answers with OOM":                      fmt.Errorf("%w: %w", errors.New("hidden"), errors.New("OOM hidden")),
		"the store does not answer in time":               fmt.Errorf("hidden: %w", context.DeadlineExceeded),
	} {
		log.Warn("lease: no worker ID could be acquired yet", "error", err, "next", "hidden")
		assert.Equal(t, "no worker ID could be acquired yet: "+says, w.text())
	}
}

// The engines are down: nobody answers, or nobody is there.
func TestCommandSaysWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = silent.Close() })
	host, db := silent.Addr().String(), filepath.Join(t.TempDir(), "leases")
	require.NoError(t, lease.Init(t.Context(), lease.File(db), snowflake.DefaultLayout()))
	for args, says := range map[string]string{
		"workers --store etcd://app:hunter2@" + host:                                         "waiting for etcd://app:xxxxx@" + host + ", until ",
		"workers --store nats://" + host:                                                     "waiting for nats://" + host + ", until ",
		fmt.Sprint("whois 5 --store zk://127.0.0.1:", servertest.Port(t)):                    "waiting for zk://127.0.0.1:",
		"audit x --store etcd://u:p@" + host:                                                 "waiting for etcd://u:xxxxx@" + host + ", until ",
		"audit --store file:" + db + " --query x --database postgres://u:p@" + host + "/ids": "waiting for postgres://u:xxxxx@" + host + "/ids, until ",
		"new --store mysql://" + host + "/ids":                                               "waiting for mysql://" + host + "/ids\n",
	} {
		t.Run(strings.Fields(args)[0], func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var errs servertest.Buffer
			ended := make(chan int)
			go func() {
				ended <- called(ctx, strings.Fields(args), func(string) (string, bool) { return "", false }, io.Discard, &errs)
			}()
			servertest.Await(t, func() error {
				if !strings.Contains(errs.String(), "snowflaked: "+says) {
					return fmt.Errorf("%s says only %q", args, errs.String())
				}
				return nil
			})
			cancel()
			assert.Equal(t, command.Failure, <-ended, args)
		})
	}
}
