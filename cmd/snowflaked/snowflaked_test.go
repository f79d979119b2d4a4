//go:build unix && go1.25

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
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
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
	"github.com/seed-5394e6b1/snowflake/cmd/snowflaked/internal/stores"
	"github.com/seed-5394e6b1/snowflake/internal/command"
	"github.com/seed-5394e6b1/snowflake/internal/lab/depth"
	"github.com/seed-5394e6b1/snowflake/internal/lab/servertest"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/server"
	"github.com/seed-5394e6b1/snowflake/server/client"
)

// lookupIn returns the lookup of an environment.
func lookupIn(env map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) { v, isSet := env[name]; return v, isSet }
}

// called runs a command without standard input, and returns the exit status.
func called(ctx context.Context, args []string, lookup func(string) (string, bool), stdout, stderr io.Writer) int {
	return run(ctx, args, lookup, strings.NewReader(""), stdout, stderr)
}

// patience bounds waits for events that take milliseconds on an idle machine.
const patience = time.Minute

// The test binary is the program, too. When that program is told to stop, it continues to serve
// until its standard input ends, so that no test depends on the speed of its clients.
func TestMain(m *testing.M) {
	every, countEvery = 50*time.Millisecond, 50*time.Millisecond
	if os.Getenv("SNOWFLAKED_TEST_PROGRAM") != "" {
		drain = func(time.Duration) { _, _ = io.Copy(io.Discard, os.Stdin) }
		main()
	}
	depth.TempDirInMemory()
	depth.AtOnce(8)
	os.Exit(m.Run())
}

// instance is a process that serves.
type instance struct {
	t    *testing.T
	cmd  *exec.Cmd
	url  string
	log  servertest.Buffer
	gone chan struct{} // closed at the end
	err  error         // then
}

// start starts an instance, on a free port unless args name one, and waits until it serves.
func start(t *testing.T, env []string, args ...string) *instance {
	t.Helper()
	return startAs(t, nil, env, args...)
}

// startAs is start of a command that is changed first.
func startAs(t *testing.T, change func(*exec.Cmd), env []string, args ...string) *instance {
	t.Helper()
	p := launch(t, change, env, args...)
	p.url = "http://" + p.awaitLog("serving")["address"].(string)
	return p
}

// launch starts an instance. Each line that it writes has to be JSON.
func launch(t *testing.T, change func(*exec.Cmd), env []string, args ...string) *instance {
	t.Helper()
	cmd := exec.Command(os.Args[0], append([]string{"--listen", "127.0.0.1:0", "--log-format", "json", "--access-log=false"}, args...)...)
	cmd.Env = append(os.Environ(), append(env, "SNOWFLAKED_TEST_PROGRAM=1")...)
	p := &instance{t: t, cmd: cmd, gone: make(chan struct{})}
	p.cmd.Stderr = &p.log
	if change != nil {
		change(p.cmd)
	}
	require.NoError(t, p.cmd.Start())
	go func() {
		p.err = p.cmd.Wait()
		close(p.gone)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.gone
		for line := range strings.Lines(p.log.String()) {
			// A kill may cut a line.
			assert.True(t, json.Valid([]byte(line)) || !strings.HasSuffix(line, "\n"), line)
		}
		if t.Failed() {
			t.Logf("the log of %s:\n%s", p.url, p.log.String())
		}
	})
	return p
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
func (p *instance) awaitLog(msg string) (entry map[string]any) {
	p.t.Helper()
	await(p.t, msg, func() bool {
		gone := isClosed(p.gone) // before the last look
		entry = p.logged(msg)
		return entry != nil || gone
	})
	require.NotNil(p.t, entry, "it ended:\n%s", &p.log)
	return entry
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// await waits until a condition holds.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	require.Eventually(t, holds, patience, 20*time.Millisecond, what)
}

// ended waits for the end, with status 0.
func (p *instance) ended() {
	p.t.Helper()
	await(p.t, "the end", func() bool { return isClosed(p.gone) })
	assert.NoError(p.t, p.err)
}

func (p *instance) signal(s syscall.Signal) {
	p.t.Helper()
	assert.NoError(p.t, p.cmd.Process.Signal(s))
}

// load runs clients that take IDs all the time, and notices an ID that comes twice.
type load struct {
	t    *testing.T
	stop chan struct{}
	once sync.Once
	all  sync.WaitGroup
	n    atomic.Int64
	mu   sync.Mutex
	ids  map[snowflake.ID]bool
}

// begin lets clients with buffers take IDs from some servers. None of their calls may fail.
func begin(t *testing.T, clients int, urls ...string) *load {
	l := &load{t: t, stop: make(chan struct{}), ids: map[snowflake.ID]bool{}}
	for i := range clients {
		i %= len(urls)
		c, err := client.New(urls[i], &client.Options{
			Others:  slices.Concat(urls[i+1:], urls[:i]),
			Batch:   50,
			MaxWait: patience,
			Timeout: time.Second,
			MaxAge:  time.Second,
		})
		require.NoError(t, err)
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
		id, err := c.NextIDContext(context.Background())
		l.mu.Lock()
		assert.NoError(l.t, err)
		assert.False(l.t, l.ids[id], "%v came twice", id)
		l.ids[id] = true
		l.mu.Unlock()
		l.n.Add(1)
	}
}

// more waits until the clients have taken n more IDs.
func (l *load) more(n int64) {
	l.t.Helper()
	n += l.n.Load()
	await(l.t, "more IDs", func() bool { return l.n.Load() >= n || l.t.Failed() })
}

// end ends the clients. Afterwards their calls may fail.
func (l *load) end() {
	l.once.Do(func() { close(l.stop) })
	l.all.Wait()
}

// shared are the stores that instances share in the tests.
func shared(t *testing.T) map[string]string {
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
	l, _ := hold(t, openStore(t, url), lease.Options{NewStore: true, Owner: "made"})
	require.NoError(t, l.Release(t.Context()))
	return url
}

// openStore opens the store of a URL, until t ends.
func openStore(t *testing.T, url string) lease.Store {
	t.Helper()
	store, closeStore, err := stores.Open(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = closeStore() })
	return store
}

// hold acquires a worker ID, which is released when t ends at the latest.
func hold(t *testing.T, s lease.Store, o lease.Options) (*lease.Lease, *snowflake.Generator) {
	t.Helper()
	o.Logger = slog.New(slog.DiscardHandler)
	l := servertest.Must(lease.Acquire(t.Context(), s, &o))(t)
	t.Cleanup(func() { _ = l.Release(context.Background()) })
	return l, servertest.Must(snowflake.NewLeased(l, nil))(t)
}

// startRedis starts a server that loses nothing when it is killed, and returns the URL of a store.
func startRedis(t *testing.T) (server *servertest.Process, url string) {
	t.Helper()
	addr, server := servertest.Redis(t, "--appendonly", "yes", "--appendfsync", "always")
	return server, made(t, "redis://"+addr)
}

// Three instances share a store and nothing else. They are killed in turn under load: no ID comes
// twice, and no client that knows all three sees an error.
func TestKilledInstancesRepeatNoID(t *testing.T) {
	t.Parallel()
	for name, store := range shared(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var running []*instance
			var urls []string
			run := func(addr string) *instance {
				return start(t, []string{"SNOWFLAKED_STORE=" + store}, "--window", "2s", "--listen", addr)
			}
			for range 3 {
				// While an instance is down, no other program may take its port.
				running = append(running, run(fmt.Sprint("127.0.0.1:", servertest.Port(t))))
				urls = append(urls, running[len(running)-1].url)
			}
			l := begin(t, 4, urls...)
			for i := range depth.Of(3, 12) {
				l.more(300)
				killed := running[i%3]
				killed.signal(syscall.SIGKILL)
				<-killed.gone
				running[i%3] = run(strings.TrimPrefix(killed.url, "http://"))
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
		drained, err = cmd.StdinPipe()
		require.NoError(t, err)
	}, nil, "--store", store, "--owner", "a")
	next := start(t, []string{"SNOWFLAKED_STORE=" + store, "SNOWFLAKED_OWNER=b"})
	var to atomic.Pointer[instance]
	to.Store(a)
	var n, moved atomic.Int64
	var all sync.WaitGroup
	stop := make(chan struct{})
	end := sync.OnceFunc(func() {
		close(stop)
		all.Wait()
	})
	defer end() // also if the test fails
	const clients = 4
	for range clients {
		c := &http.Client{Transport: &http.Transport{Protocols: protocols}}
		all.Go(func() {
			defer c.CloseIdleConnections()
			for last := a; ; {
				select {
				case <-stop:
					return
				case <-time.After(time.Millisecond):
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
				if p != last {
					last = p
					moved.Add(1)
				}
			}
		})
	}
	answered := func(count *atomic.Int64, n int64) {
		t.Helper()
		await(t, "answers", func() bool { return count.Load() >= n || t.Failed() })
	}
	answered(&n, 200)
	a.signal(syscall.SIGTERM)
	await(t, "not ready", func() bool { status, _, _ := get(t, http.DefaultClient, a.url+"/readyz"); return status == 503 })
	answered(&n, n.Load()+10) // it still serves
	to.Store(next)
	answered(&moved, clients) // no request is on its way to the first one any more
	answered(&n, n.Load()+100)
	drained.Close()
	a.ended()
	end()
	records := servertest.Must(lease.Holders(t.Context(), lease.File(strings.TrimPrefix(store, "file:"))))(t)
	for _, r := range records {
		assert.Equal(t, (r.Owner == "a"), r.State == lease.StateFree, "%s's worker ID %d is %s", r.Owner, r.Worker, r.State)
	}
	next.signal(syscall.SIGINT)
	next.ended()
}

// After the first signal, the server continues until its clients have noticed. A second one ends
// it.
func TestSecondSignalEndsTheProgramAtOnce(t *testing.T) {
	t.Parallel()
	p := startAs(t, func(cmd *exec.Cmd) {
		_, err := cmd.StdinPipe() // it drains until this is closed
		require.NoError(t, err)
	}, nil, "--store", "file:"+t.TempDir())
	p.signal(syscall.SIGTERM)
	await(t, "not ready", func() bool { status, _, _ := get(t, http.DefaultClient, p.url+"/readyz"); return status == 503 })
	await(t, "the end", func() bool {
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
		return isClosed(p.gone)
	})
	assert.Error(t, p.err, "it says that nothing was cut off")
}

// silent is a listener without connections.
type silent struct {
	net.Listener
	closed chan struct{}
}

func (l silent) Accept() (net.Conn, error) { <-l.closed; return nil, net.ErrClosed }
func (l silent) Close() error              { close(l.closed); return nil }

// After SIGTERM the server continues to serve for --drain.
func TestDrainTakesItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		layout := snowflake.DefaultLayout()
		layout.Epoch = 0 // before the fake time
		gen := servertest.Must(snowflake.New(1, &snowflake.Options{Layout: layout, Clock: snowflake.SystemClock()}))(t)
		s := servertest.Must(server.New(gen, nil))(t)
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
		h, failed := serveMain(s, l, nil)
		require.NoError(t, c.answer(ctx, s, h, failed))
		assert.Equal(t, c.drain, time.Since(begun))
	})
}

// get returns the status, body and header of an answer. The status is 0 if there is no answer.
func get(t *testing.T, c *http.Client, url string, header ...string) (status int, body string, h http.Header) {
	t.Helper()
	r := servertest.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil))(t)
	r.Header.Set("Accept", "text/plain")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
		if header[i] == "Host" {
			r.Host = header[i+1]
		}
	}
	resp, err := c.Do(r)
	if err != nil {
		return 0, err.Error(), nil
	}
	defer resp.Body.Close()
	b := servertest.Must(io.ReadAll(resp.Body))(t)
	return resp.StatusCode, string(b), resp.Header
}

// If the store is away longer than a window, the answers say so. When it is back, the server
// recovers, and clients that wait have seen only a delay.
func TestServerContinuesAfterStoreWasAway(t *testing.T) {
	t.Parallel()
	redis, url := startRedis(t)
	p := start(t, nil, "--store", url, "--window", "1s")
	l := begin(t, 2, p.url)
	l.more(200)
	redis.Kill()
	var body string
	var header http.Header
	await(t, "no ID", func() bool {
		var status int
		status, body, header = get(t, http.DefaultClient, p.url+"/id", "Accept", "application/json")
		return status == http.StatusServiceUnavailable
	})
	assert.Equal(t, "1", header.Get("Retry-After"))
	assert.Contains(t, body, `"code":"unavailable"`)
	assert.NotContains(t, body, "127.0.0.1")
	status, body, _ := get(t, http.DefaultClient, p.url+"/readyz")
	assert.Equal(t, http.StatusServiceUnavailable, status)
	assert.NotContains(t, body, "127.0.0.1")
	assert.Regexp(t, "127.0.0.1|the store did not answer", p.awaitLog("no ID could be issued")["error"], "the log does not say why")
	assert.NotContains(t, p.log.String(), "driver")
	status, _, _ = get(t, http.DefaultClient, p.url+"/healthz")
	assert.Equal(t, http.StatusOK, status)
	redis.Restart()
	l.more(200)
	l.end()
	p.signal(syscall.SIGTERM)
	p.ended()
}

// The server starts with nothing but a home directory. The fleet's commands read the same store.
func TestServerRunsWithOnlyADirectory(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	p := start(t, []string{"XDG_STATE_HOME=", "HOME=" + home}, "--owner", "the first")
	_, id, _ := get(t, http.DefaultClient, p.url+"/id")
	id = strings.TrimSpace(id)
	run := func(want int, args ...string) string {
		t.Helper()
		var out bytes.Buffer
		lookup := lookupIn(map[string]string{"XDG_STATE_HOME": filepath.Join(home, ".local", "state")})
		assert.Equal(t, want, called(t.Context(), args, lookup, &out, &out), "%v:\n%s", args, &out)
		return out.String()
	}
	assert.Regexp(t, `held .*"the first"`, run(command.OK, "workers"))
	assert.Contains(t, run(command.OK, "whois", id), id+` owner="the first"`)
	out := run(command.Failure, "whois", "--json", id, "5")
	assert.Contains(t, out, `"owner":"the first"`)
	assert.Contains(t, out, `"error":"`)
	status, page, _ := get(t, http.DefaultClient, p.url+"/")
	assert.Equal(t, 200, status)
	assert.Contains(t, page, "<html")
	p.signal(syscall.SIGTERM)
	p.ended()
	assert.Contains(t, run(command.OK, "workers", "--json"), `"state":"free"`)
	assert.Equal(t, run(command.OK, "whois", "--json", id), run(command.OK, "whois", id, "--json"))
	assert.Contains(t, run(command.OK, "workers", "--store", "file:"+t.TempDir()), "is it the right store?")
	assert.Contains(t, run(command.Usage, "whois"), "which ID?")
}

// The record of a worker ID whose local copy was removed is not spent until it is retired.
func TestWorkerIDWhoseLocalCopyIsGoneIsRetired(t *testing.T) {
	dir, copied := t.TempDir(), t.TempDir()
	l, _ := hold(t, lease.File(dir), lease.Options{Owner: "a", Window: 2 * time.Second, Reuse: lease.ReuseKeep, LocalCopy: copied})
	retire := func(worker int) (said string, status int) {
		out, errs, status := runCLI("workers", "--store", "file:"+dir, "--retire", strconv.Itoa(worker))
		return out + errs, status
	}
	worker := l.Worker()
	for other, why := range map[int]string{worker: `it was renewed.* held by a @`, worker ^ 1: "nobody has it"} {
		out, status := retire(other)
		assert.Equal(t, command.Failure, status)
		assert.Regexp(t, "worker "+strconv.Itoa(other)+" is not retired: "+why, out)
	}
	require.NoError(t, os.RemoveAll(filepath.Join(copied, "worker")))
	require.Eventually(t, func() bool { return l.Worker() != worker }, time.Minute, 10*time.Millisecond)
	for range 2 {
		out, status := retire(worker)
		assert.Equal(t, command.OK, status)
		assert.Regexp(t, `(?m)^`+strconv.Itoa(worker)+` +spent .* "a @`, out)
	}
}

func TestInvalidFlagsAreRefused(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	// The address is taken, so a wrong value must be refused before the server listens.
	taken := servertest.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer taken.Close()
	for given, says := range map[string]string{
		"--listen nonsense": "--listen", "--listen localhost:": "--listen", "--admin nonsense": "--admin",
		"--store mongodb://x": "--store", "--layout nobody": "--layout",
		"--layout 41/10/13": "--layout", "--policy wait": "--policy", "--policy wait:-1s": "--policy",
		"--policy clockseq": "--policy", "--policy rewind:0": "--policy",
		"--window -1s": "--window", "--window 1ns": "--window", "--window 3m": "--window 3m0s is over 2m0s",
		"--first -1": "--first -1 is under 0", "--count -1": "--count -1 is under 0", "--max-per-client -1": "--max-per-client -1 is under 0",
		"--window soon":  `invalid argument "soon" for "--window" flag: time: invalid duration "soon": want a time such as 10s`,
		"--nonsense":     "--help explains the flags",
		"-store x":       "there is no flag -store: flags have two hyphens",
		"--datacenter 1": "--datacenter", "--max-ids 0": "--max-ids", "--max-in-flight 5": "--max-in-flight",
		"--max-connections 0":  "--max-connections",
		"--max-stream-time 0s": "--max-stream-time", "--timeout 0s": "--timeout", "--drain -1s": "--drain",
		"--grace -1s": "--grace", "--log-format xml": "--log-format",
		"--tls-cert x": "--tls-key", "--tls-client-ca x": "--tls-client-ca",
		"--tls-cert x --tls-key y": "--tls-cert", "--token-file /no/such": "--token-file",
		"--token-file " + empty: "--token-file", "extra": `"extra"`, "--borrow-ahead -1s": "--borrow-ahead",
		"--watermark 999ms": "--watermark", "--watermark -1s": "--watermark",
		"--floor-every -1s": "--floor-every", "--max-clock-error -1s": "--max-clock-error", "--max-clock-error 5": "such as 10s",
		"SNOWFLAKED_TIMEOUT=10": `--timeout: the environment variable SNOWFLAKED_TIMEOUT="10": ` +
			`time: missing unit in duration "10": want a time such as 10s`,
		"SNOWFLAKED_LAYOUT=nobody": "--layout",
		"SNOWFLAKED_STORE=":        "SNOWFLAKED_STORE is empty",
	} {
		args := slices.DeleteFunc(strings.Fields(given), func(word string) bool { return strings.HasPrefix(word, "SNOWFLAKED_") })
		lookup := func(name string) (v string, isSet bool) {
			if v, isSet = strings.CutPrefix(given, name+"="); isSet {
				return v, true
			}
			v, isSet = map[string]string{"XDG_STATE_HOME": dir, "SNOWFLAKED_LISTEN": taken.Addr().String()}[name]
			return v, isSet
		}
		var out, log bytes.Buffer
		assert.Equal(t, command.Usage, called(t.Context(), args, lookup, &out, &log), given)
		assert.Contains(t, log.String(), says)
		assert.Empty(t, out.String())
	}
	files := servertest.Must(os.ReadDir(dir))(t)
	assert.Len(t, files, 1, "a worker ID was taken")
	for given, says := range map[string]string{ // the lease refuses them
		"--window 3s --floor-every 2s": "FloorEvery 2s is over 1s",
		"--vmclock /no/such":           "VMClock: open /no/such", "--first 1024": "First 1024 is not within 0 to 1023",
		"--first 1000 --count 25": "25 worker IDs from 1000 on are not within 0 to 1023",
		// The error does not show the password.
		"--store postgres://u:hunter2@127.0.0.1:1/x?nonsense=%zz": "--store",
	} {
		for _, format := range []string{"text", "json"} {
			var log bytes.Buffer
			args := append([]string{"--listen", "127.0.0.1:0", "--store", "file:" + dir, "--log-format", format}, strings.Fields(given)...)
			// If nothing is refused, the server serves until then.
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			assert.Equal(t, command.Usage, called(ctx, args, os.LookupEnv, &log, &log), given)
			assert.Contains(t, log.String(), says)
			assert.NotContains(t, log.String(), "hunter2")
		}
	}
	var log servertest.Buffer
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan int, 1)
	go func() {
		ended <- called(ctx, []string{"--listen", "127.0.0.1:0", "--store", "file:" + dir, "--max-clock-error", "1ns"}, os.LookupEnv, &log, &log)
	}()
	await(t, "it waits until the clock is right", func() bool { return strings.Contains(log.String(), "MaxClockError is 1ns") })
	cancel()
	<-ended
	assert.NotContains(t, log.String(), "worker ID acquired")
}

// The help of each command says what its exit statuses mean.
func TestExitStatusesAreDocumented(t *testing.T) {
	for _, c := range (&program{command.New("snowflaked", nil, nil, nil, nil), os.LookupEnv}).rootCommand().Commands() {
		if c.GroupID == "own" && c.Name() != "help" && c.Name() != "completion" {
			assert.Regexp(t, `\nThe exit status is\n  0  if .*\n  1  if .*\n  2  if .*$`, c.Long, c.Name())
		}
	}
}

// A second server on the same address exits, and takes no worker ID.
func TestAddressInUseIsReported(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	dir := filepath.Join(t.TempDir(), "workers")
	var log bytes.Buffer
	assert.Equal(t, command.Failure, called(t.Context(),
		[]string{"--listen", l.Addr().String(), "--store", "file:" + dir}, os.LookupEnv, &log, &log))
	assert.Contains(t, log.String(), "--listen")
	_, err = os.Stat(dir)
	assert.ErrorIs(t, err, os.ErrNotExist, "a worker ID was taken")
}
