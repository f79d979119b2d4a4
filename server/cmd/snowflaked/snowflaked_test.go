//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/depth"
	"github.com/seed-5394e6b1/snowflake/internal/servertest"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/urllease"
	"github.com/seed-5394e6b1/snowflake/server"
	"github.com/seed-5394e6b1/snowflake/server/client"
)

// patience bounds the waits for what takes milliseconds on an idle machine.
const patience = time.Minute

// The test binary is the program, too. When that program is told to stop, it goes on serving until its standard
// input ends, so that no test depends on the time that its clients take to notice.
func TestMain(m *testing.M) {
	every, countEvery = 50*time.Millisecond, 50*time.Millisecond
	if os.Getenv("SNOWFLAKED_TEST_PROGRAM") != "" {
		drain = func(time.Duration) { _, _ = io.Copy(io.Discard, os.Stdin) }
		main()
	}
	depth.AtOnce(8)
	os.Exit(m.Run())
}

func program(env []string, args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), append(env, "SNOWFLAKED_TEST_PROGRAM=1")...)
	return cmd
}

// instance is a process that serves.
type instance struct {
	t    *testing.T
	cmd  *exec.Cmd
	url  string
	log  lockedBuffer
	exit chan error
}

// lockedBuffer can be read while the process writes.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// start starts an instance, on a free port unless args name one, and waits until it serves.
func start(t *testing.T, env []string, args ...string) *instance {
	t.Helper()
	return startAs(t, func(*exec.Cmd) {}, env, args...)
}

// startAs is start of a command that is changed first.
func startAs(t *testing.T, change func(*exec.Cmd), env []string, args ...string) *instance {
	t.Helper()
	p := &instance{t: t, exit: make(chan error, 1)}
	p.cmd = program(env, append([]string{"-listen", "127.0.0.1:0", "-log-format", "json", "-access-log=false"}, args...)...)
	change(p.cmd)
	p.cmd.Stderr = &p.log
	require.NoError(t, p.cmd.Start())
	go func() { p.exit <- p.cmd.Wait() }()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		if t.Failed() {
			t.Logf("the log of %s:\n%s", p.url, p.log.String())
		}
	})
	for begun := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		if serving := p.logged("serving"); serving != nil {
			p.url = "http://" + serving["address"].(string)
			return p
		}
		select {
		case err := <-p.exit:
			t.Fatalf("it ended: %v\n%s", err, p.log.String())
		default:
		}
		if time.Since(begun) > patience {
			t.Fatalf("it does not serve:\n%s", p.log.String())
		}
	}
}

// logged returns the first entry of the log with a message.
func (p *instance) logged(msg string) map[string]any {
	for line := range strings.Lines(p.log.String()) {
		var entry map[string]any
		if json.Unmarshal([]byte(line), &entry) == nil && entry["msg"] == msg {
			return entry
		}
	}
	return nil
}

// awaitLog waits for an entry of the log with a message.
func (p *instance) awaitLog(msg string) map[string]any {
	p.t.Helper()
	for begun := time.Now(); time.Since(begun) < patience; time.Sleep(5 * time.Millisecond) {
		if entry := p.logged(msg); entry != nil {
			return entry
		}
	}
	p.t.Fatalf("the log does not say %q", msg)
	return nil
}

// ended waits for the end, with status 0.
func (p *instance) ended() {
	p.t.Helper()
	select {
	case err := <-p.exit:
		if err != nil {
			p.t.Errorf("it ended with %v", err)
		}
	case <-time.After(patience):
		p.t.Fatal("it does not end")
	}
}

func (p *instance) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Error(err)
	}
}

// balancer spreads requests over the instances that are ready.
type balancer struct {
	mu    sync.Mutex
	ready map[string]*httputil.ReverseProxy
	next  int
	order []string
}

// balance starts a balancer that asks each instance for /readyz.
func balance(t *testing.T) (*balancer, string) {
	b := &balancer{ready: map[string]*httputil.ReverseProxy{}}
	h := httptest.NewServer(b)
	t.Cleanup(h.Close)
	stop := make(chan struct{})
	t.Cleanup(func() { close(stop) })
	go func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
			}
			for _, target := range b.all() {
				if resp, err := http.Get(target + "/readyz"); err != nil || resp.StatusCode != http.StatusOK {
					b.remove(target)
				} else {
					resp.Body.Close()
				}
			}
		}
	}()
	return b, h.URL
}

func (b *balancer) all() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string(nil), b.order...)
}

func (b *balancer) add(target string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	u, _ := url.Parse(target)
	proxy := httputil.NewSingleHostReverseProxy(u)
	proxy.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)
	b.ready[target] = proxy
	b.order = append(b.order, target)
}

func (b *balancer) remove(target string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, o := range b.order {
		if o == target {
			b.order = append(b.order[:i:i], b.order[i+1:]...)
		}
	}
	delete(b.ready, target)
}

func (b *balancer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	if len(b.order) == 0 {
		b.mu.Unlock()
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	b.next++
	proxy := b.ready[b.order[b.next%len(b.order)]]
	b.mu.Unlock()
	proxy.ServeHTTP(w, r)
}

// load is clients that take IDs all the time, and notice an ID that comes twice.
type load struct {
	t    *testing.T
	stop chan struct{}
	once sync.Once
	all  sync.WaitGroup
	n    atomic.Int64
	mu   sync.Mutex
	ids  map[snowflake.ID]bool
}

// begin lets clients with buffers take IDs from a URL. None of their calls may fail.
func begin(t *testing.T, url string, clients int) *load {
	l := &load{t: t, stop: make(chan struct{}), ids: map[snowflake.ID]bool{}}
	for range clients {
		c, err := client.New(url, &client.Options{Batch: 50, MaxWait: patience, Timeout: time.Second, MaxAge: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			l.all.Go(func() { l.run(c) })
		}
		t.Cleanup(func() { _ = c.Close() })
	}
	t.Cleanup(l.end) // before the clients are closed, also if the test fails
	return l
}

func (l *load) run(c *client.Client) {
	for {
		select {
		case <-l.stop:
			return
		case <-time.After(time.Millisecond):
		}
		id, err := c.NextID(context.Background())
		l.mu.Lock()
		if err != nil {
			l.t.Errorf("a call failed: %v", err)
		} else if l.ids[id] {
			l.t.Errorf("%v came twice", id)
		}
		l.ids[id] = true
		l.mu.Unlock()
		l.n.Add(1)
	}
}

// more waits until the clients have taken n more IDs.
func (l *load) more(n int64) {
	l.t.Helper()
	l.until(fmt.Sprint(n, " more IDs"), l.n.Load()+n)
}

func (l *load) until(what string, n int64) {
	l.t.Helper()
	for begun := time.Now(); l.n.Load() < n; time.Sleep(5 * time.Millisecond) {
		if l.t.Failed() || time.Since(begun) > patience {
			l.t.Fatalf("%s do not come", what)
		}
	}
}

// end ends the clients. Afterwards their calls may fail.
func (l *load) end() {
	l.once.Do(func() { close(l.stop) })
	l.all.Wait()
}

// stores are what instances share in the tests.
func stores(t *testing.T) map[string]string {
	all := map[string]string{"sqlite": made(t, "sqlite:"+filepath.Join(t.TempDir(), "workers.db"))}
	if depth.Full() {
		all["file"] = "file:" + t.TempDir()
		_, all["redis"] = startRedis(t)
	}
	return all
}

// made makes the store of a URL, and returns the URL. A program would wait for minutes first.
func made(t *testing.T, url string) string {
	t.Helper()
	store, closeStore, err := urllease.Open(t.Context(), url)
	require.NoError(t, err)
	defer closeStore()
	l, err := lease.Acquire(t.Context(), store, &lease.Options{NewStore: true, Owner: "made"})
	if err == nil {
		err = l.Release(t.Context())
	}
	require.NoError(t, err)
	return url
}

// startRedis starts a server that loses nothing when it is killed, and returns the URL of a store.
func startRedis(t *testing.T) (server *servertest.Process, url string) {
	t.Helper()
	path, port := servertest.Program(t, "redis-server", "redis-server"), servertest.Port(t)
	server = servertest.Start(t, servertest.Command{
		Path: path,
		Args: []string{"--port", fmt.Sprint(port), "--bind", "127.0.0.1", "--dir", servertest.Dir(t, ""), "--appendonly", "yes", "--appendfsync", "always"},
	}, func() error {
		c, err := net.Dial("tcp", fmt.Sprint("127.0.0.1:", port))
		if err == nil {
			c.Close()
		}
		return err
	})
	return server, made(t, fmt.Sprint("redis://127.0.0.1:", port))
}

// Three instances share a store and nothing else. They are killed in turn under load: no ID comes
// twice, and no client sees an error.
func TestKilledInstancesRepeatNoID(t *testing.T) {
	t.Parallel()
	for name, store := range stores(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, url := balance(t)
			run := func() *instance {
				p := start(t, []string{"SNOWFLAKED_STORE=" + store}, "-window", "2s")
				b.add(p.url)
				return p
			}
			var running []*instance
			for range 3 {
				running = append(running, run())
			}
			l := begin(t, url, 4)
			for range depth.Of(3, 12) {
				l.more(300)
				running[0].signal(syscall.SIGKILL)
				<-running[0].exit
				running = append(running[1:], run())
			}
			l.more(300)
			l.end()
		})
	}
}

// Plain requests, without any retry, go to one instance until /readyz of that instance says no, and
// then to the other: SIGTERM loses no request.
func TestSIGTERMLosesNoRequest(t *testing.T) {
	t.Parallel()
	for name, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			protocols := new(http.Protocols)
			protocols.SetHTTP1(!http2)
			protocols.SetUnencryptedHTTP2(http2)
			testSIGTERM(t, protocols)
		})
	}
}

func testSIGTERM(t *testing.T, protocols *http.Protocols) {
	store := "file:" + t.TempDir()
	var drained io.Closer
	a := startAs(t, func(cmd *exec.Cmd) {
		var err error
		if drained, err = cmd.StdinPipe(); err != nil {
			t.Fatal(err)
		}
	}, nil, "-store", store, "-owner", "a")
	next := start(t, []string{"SNOWFLAKED_STORE=" + store, "SNOWFLAKED_OWNER=b"})
	var to atomic.Pointer[instance]
	to.Store(a)
	var n, after atomic.Int64
	var all sync.WaitGroup
	stop := make(chan struct{})
	end := sync.OnceFunc(func() {
		close(stop)
		all.Wait()
	})
	defer end() // also if the test fails
	for range 4 {
		c := &http.Client{Transport: &http.Transport{Protocols: protocols}}
		all.Go(func() {
			defer c.CloseIdleConnections()
			for {
				select {
				case <-stop:
					return
				default:
				}
				p := to.Load()
				// A POST is not repeated by net/http.
				resp, err := c.Post(p.url+"/snowflake.v1.SnowflakeService/Batch", "application/json", strings.NewReader(`{"n":10}`))
				if err != nil || resp.StatusCode != http.StatusOK {
					t.Errorf("a request is lost: %v, %v", resp, err)
					return
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				n.Add(1)
				if p == next {
					after.Add(1)
				}
			}
		})
	}
	await := func(count *atomic.Int64, n int64) {
		t.Helper()
		for begun := time.Now(); count.Load() < n; time.Sleep(time.Millisecond) {
			if t.Failed() || time.Since(begun) > patience {
				t.Fatal("requests are not answered")
			}
		}
	}
	await(&n, 200)
	a.signal(syscall.SIGTERM)
	for begun := time.Now(); ; time.Sleep(time.Millisecond) {
		if resp, err := http.Get(a.url + "/readyz"); err != nil {
			t.Fatal(err)
		} else if resp.Body.Close(); resp.StatusCode == http.StatusServiceUnavailable {
			break
		}
		if time.Since(begun) > patience {
			t.Fatal("it stays ready")
		}
	}
	await(&n, n.Load()+10) // it still serves
	to.Store(next)
	await(&after, 100)
	drained.Close()
	a.ended()
	end()
	records, err := lease.Holders(t.Context(), lease.File(strings.TrimPrefix(store, "file:")))
	require.NoError(t, err)
	for _, r := range records {
		assert.Equal(t, (r.Owner == "a"), r.State == lease.Free, "%s's worker ID %d is %s", r.Owner, r.Worker, r.State)
	}
	next.signal(syscall.SIGINT)
	next.ended()
}

// silent is a listener to which nobody connects.
type silent struct {
	net.Listener
	closed chan struct{}
}

func (l silent) Accept() (net.Conn, error) { <-l.closed; return nil, net.ErrClosed }
func (l silent) Close() error              { close(l.closed); return nil }

// After SIGTERM it serves for the time of -drain.
func TestDrainTakesItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		layout := snowflake.DefaultLayout()
		layout.Epoch = 0 // before the fake time
		gen, err := snowflake.New(1, &snowflake.Options{Layout: layout})
		require.NoError(t, err)
		s, err := server.New(gen, nil)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		l := silent{closed: make(chan struct{})}
		time.AfterFunc(10*time.Second-1, func() {
			select {
			case <-l.closed:
				t.Error("it takes no connections any more")
			default:
			}
		})
		c := &config{drain: 10 * time.Second, grace: time.Second}
		begun := time.Now()
		if err := c.answer(ctx, s, l, nil); err != nil || time.Since(begun) != c.drain {
			t.Errorf("it ends after %v, not %v: %v", time.Since(begun), c.drain, err)
		}
	})
}

// get returns the status, header and body of an answer.
func get(t *testing.T, c *http.Client, url string, header ...string) (*http.Response, string, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := c.Do(r)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp, string(body), err
}

// While the store is away longer than a window, the answers say so; afterwards it goes on by
// itself, and clients that wait have seen nothing but a delay.
func TestServerContinuesAfterStoreWasAway(t *testing.T) {
	t.Parallel()
	redis, url := startRedis(t)
	p := start(t, nil, "-store", url, "-window", "1s")
	l := begin(t, p.url, 2)
	l.more(200)
	redis.Kill()
	for begun := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		resp, body, err := get(t, http.DefaultClient, p.url+"/id", "Accept", "application/json")
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != http.StatusOK {
			if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") != "1" ||
				!strings.Contains(body, `"code":"unavailable"`) || strings.Contains(body, "127.0.0.1") {
				t.Errorf("%v %s", resp, body)
			}
			break
		}
		if time.Since(begun) > patience {
			t.Fatal("IDs go on without the store")
		}
	}
	resp, body, err := get(t, http.DefaultClient, p.url+"/readyz")
	require.NoError(t, err, "%v %s %v", resp, body, err)
	require.Equal(t, http.StatusServiceUnavailable, resp.StatusCode, "%v %s %v", resp, body, err)
	assert.NotContains(t, body, "127.0.0.1", "%v %s %v", resp, body, err)
	if why := p.awaitLog("no ID could be issued"); !strings.Contains(why["error"].(string), "127.0.0.1") {
		t.Errorf("the log does not say why: %v", why)
	}
	resp, _, err = get(t, http.DefaultClient, p.url+"/healthz")
	require.NoError(t, err, "%v %v", resp, err)
	assert.Equal(t, http.StatusOK, resp.StatusCode, "%v %v", resp, err)
	redis.Restart()
	l.more(200)
	l.end()
	p.signal(syscall.SIGTERM)
	p.ended()
}

// With nothing but a home directory, it starts; the fleet's commands read the same store.
func TestServerRunsWithOnlyADirectory(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	p := start(t, []string{"XDG_STATE_HOME=", "HOME=" + home}, "-owner", "the first")
	_, id, err := get(t, http.DefaultClient, p.url+"/id")
	require.NoError(t, err)
	id = strings.TrimSpace(id)
	run := func(want int, args ...string) string {
		t.Helper()
		var out bytes.Buffer
		getenv := func(name string) string {
			return map[string]string{"XDG_STATE_HOME": filepath.Join(home, ".local", "state")}[name]
		}
		if got := command(t.Context(), args, getenv, &out, &out); got != want {
			t.Errorf("%v: status %d, not %d:\n%s", args, got, want, &out)
		}
		return out.String()
	}
	out := run(exitOK, "workers")
	require.Contains(t, out, "held")
	assert.Contains(t, out, `"the first"`)
	if out := run(exitOK, "whois", id); !strings.HasPrefix(out, id+` owner="the first"`) {
		t.Error(out)
	}
	out = run(exitFailure, "whois", "-json", id, "5")
	require.Contains(t, out, `"owner":"the first"`)
	assert.Contains(t, out, `"error":"`)
	resp, page, err := get(t, http.DefaultClient, p.url+"/")
	require.NoError(t, err, resp)
	require.Equal(t, 200, resp.StatusCode, resp)
	assert.Contains(t, page, "<html", resp)
	p.signal(syscall.SIGTERM)
	p.ended()
	assert.Contains(t, run(exitOK, "workers", "-json"), `"state":"free"`)
	assert.Contains(t, run(exitUsage, "whois", id, "-json"), "flags come before the IDs")
	assert.Contains(t, run(exitOK, "workers", "-store", "file:"+t.TempDir()), "is -store right?")
	assert.Contains(t, run(exitUsage, "whois"), "which ID?")
}

func TestInvalidFlagsAreRefused(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	taken, err := net.Listen("tcp", "127.0.0.1:0") // so that a wrong value is refused before the server listens
	require.NoError(t, err)
	defer taken.Close()
	for _, test := range []struct {
		env  string // of a variable, set to the value
		args string
		says string
	}{
		{"", "-listen nonsense", "-listen"}, {"", "-store mongodb://x", "-store"}, {"", "-layout nobody", "-layout"},
		{"", "-layout 41/10/13", "-layout"}, {"", "-policy wait", "-policy"}, {"", "-policy wait:-1s", "-policy"},
		{"", "-policy clockseq", "-policy"}, {"", "-policy rewind:0", "-policy"}, {"", "-window -1s", "-window"}, {"", "-window 1ns", "-window"},
		{"", "-window soon", "-window: parse error: want a time such as 10s"}, {"", "-nonsense", "-h explains the flags"}, {"", "-datacenter 1", "-datacenter"}, {"", "-max-ids 0", "-max-ids"},
		{"", "-max-in-flight 5", "-max-in-flight"}, {"", "-max-connections 0", "-max-connections"}, {"", "-max-stream-ids -1", "-max-stream-ids"}, {"", "-max-stream-time 0s", "-max-stream-time"},
		{"", "-timeout 0s", "-timeout"}, {"", "-drain -1s", "-drain"}, {"", "-grace -1s", "-grace"}, {"", "-log-format xml", "-log-format"},
		{"", "-tls-cert x", "-tls-key"}, {"", "-tls-client-ca x", "-tls-client-ca"}, {"", "-tls-cert x -tls-key y", "-tls-cert"},
		{"", "-token-file /no/such", "-token-file"}, {"", "-token-file " + empty, "-token-file"}, {"", "extra", `"extra"`},
		{"SNOWFLAKED_TIMEOUT=10", "", `-timeout: the environment variable SNOWFLAKED_TIMEOUT="10"`}, {"SNOWFLAKED_TIMEOUT=10", "", "such as 10s"}, {"SNOWFLAKED_LAYOUT=nobody", "", "-layout"}, {"", "-borrow-ahead -1s", "-borrow-ahead"}, {"", "-watermark 999ms", "-watermark"}, {"", "-watermark -1s", "-watermark"},
		{"", "-floor-every -1s", "-floor-every"}, {"", "-max-clock-error -1s", "-max-clock-error"}, {"", "-max-clock-error 5", "such as 10s"},
	} {
		getenv := func(name string) string {
			if v, ok := strings.CutPrefix(test.env, name+"="); ok {
				return v
			}
			return map[string]string{"XDG_STATE_HOME": dir, "SNOWFLAKED_LISTEN": taken.Addr().String()}[name]
		}
		var out, log bytes.Buffer
		if got := command(t.Context(), strings.Fields(test.args), getenv, &out, &log); got != exitUsage || !strings.Contains(log.String(), test.says) || out.Len() > 0 {
			t.Errorf("%s %s: %d %s", test.env, test.args, got, &log)
		}
	}
	files, err := os.ReadDir(dir)
	require.NoError(t, err, "a worker ID was taken:")
	assert.Len(t, files, 1, "a worker ID was taken:")
	for args, says := range map[string]string{ // the lease refuses them
		"-window 3s -floor-every 2s": "FloorEvery 2s is over 1s", "-vmclock /no/such": "VMClock: open /no/such", "-max-clock-error 1ns": "MaxClockError is 1ns",
	} {
		var why bytes.Buffer
		args := append([]string{"-listen", "127.0.0.1:0", "-store", "file:" + dir}, strings.Fields(args)...)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second) // if nothing is refused, it serves
		defer cancel()
		if got := command(ctx, args, os.Getenv, &why, &why); got == exitOK || !strings.Contains(why.String(), says) {
			t.Errorf("%d %s", got, &why)
		}
	}
	secret := "postgres://u:hunter2@127.0.0.1:1/x?nonsense=%zz"
	var log bytes.Buffer
	if got := command(t.Context(), []string{"-store", secret}, os.Getenv, &log, &log); got == exitOK || strings.Contains(log.String(), "hunter2") {
		t.Errorf("%d %s", got, &log)
	}
}

// The help names every flag with its variable.
func TestHelpIsComplete(t *testing.T) {
	var out, log bytes.Buffer
	if got := command(t.Context(), []string{"help"}, os.Getenv, &out, &log); got != exitOK || log.Len() > 0 {
		t.Fatal(got, &log)
	}
	for _, name := range []string{
		"listen", "store", "layout", "policy", "owner", "window", "watermark", "floor-every", "max-clock-error", "vmclock", "new-store", "borrow-ahead", "datacenter", "random-start", "max-ids", "max-stream-ids",
		"max-stream-time", "max-in-flight", "max-per-client", "max-connections", "admin", "hosts", "fleet", "timeout", "token-file", "tls-cert", "tls-key", "tls-client-ca", "drain", "grace", "log-format", "access-log",
	} {
		require.Contains(t, out.String(), "\n  -"+name+" ", "-%s is not explained", name)
		assert.Contains(t, out.String(), "("+variable(name)+")", "-%s is not explained", name)
	}
	assert.Equal(t, 32, strings.Count(out.String(), "(SNOWFLAKED_"))
	for _, name := range []string{"workers", "whois", "watermark"} {
		out.Reset()
		if got := command(t.Context(), []string{name, "-h"}, os.Getenv, &out, &log); got != exitOK || !strings.Contains(out.String(), "SNOWFLAKED_STORE") {
			t.Error(got, &out)
		}
	}
}

// A second server on the same address ends, and takes no worker ID.
func TestAddressInUseIsReported(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	dir := filepath.Join(t.TempDir(), "workers")
	var log bytes.Buffer
	if got := command(t.Context(), []string{"-listen", l.Addr().String(), "-store", "file:" + dir}, os.Getenv, &log, &log); got != exitFailure || !strings.Contains(log.String(), "-listen") {
		t.Errorf("%d %s", got, &log)
	}
	_, err = os.Stat(dir)
	assert.ErrorIs(t, err, os.ErrNotExist, "a worker ID was taken")
}
