//go:build unix

package main

import (
	"bufio"
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
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/depth"
	"github.com/seed-5394e6b1/snowflake/internal/servertest"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/urllease"
)

// The tests start the program as an operator does: the test binary is the program, with any store, if
// this variable is set. TestProgramHasOneStore starts the program with its own store.
const programEnv = "SERVICE_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(programEnv) != "" {
		program(urllease.Open)
		return
	}
	depth.AtOnce(8)
	os.Exit(m.Run())
}

// patience is how long a test waits for something that must happen, even if the machine is slow.
const patience = 2 * time.Minute

// instance is a running program.
type instance struct {
	t      *testing.T
	cmd    *exec.Cmd
	url    string
	worker int
	exited chan struct{}

	mu  sync.Mutex
	log []entry
	raw strings.Builder
}

// entry is a line of the log.
type entry struct {
	Msg    string
	Addr   string
	Worker int
	ID     snowflake.ID
	Parts  struct {
		Time             time.Time
		Worker, Sequence *int
	}
	Error string
}

// command returns the command that starts the program.
func command(env []string, args ...string) *exec.Cmd {
	exe, err := os.Executable()
	if err != nil {
		panic(err)
	}
	cmd := exec.Command(exe, args...)
	cmd.Env = append(os.Environ(), programEnv+"=1")
	cmd.Env = append(cmd.Env, env...)
	return cmd
}

// start starts a program, and waits until it serves.
func start(t *testing.T, env []string, args ...string) *instance {
	t.Helper()
	return serving(t, command(env, append([]string{"-addr", "127.0.0.1:0"}, args...)...))
}

// serving starts a command, and waits until it serves.
func serving(t *testing.T, cmd *exec.Cmd) *instance {
	t.Helper()
	p := &instance{t: t, cmd: cmd, exited: make(chan struct{})}
	stderr, err := p.cmd.StderrPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	require.NoError(t, err)
	serves := make(chan entry, 1)
	go func() {
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			if e := p.keep(lines.Bytes()); e.Msg == "serving" {
				serves <- e
			}
		}
		_ = p.cmd.Wait()
		close(p.exited)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.exited
		if t.Failed() {
			t.Logf("%v wrote\n%.20000s", p.cmd, p.raw.String())
		}
	})
	select {
	case e := <-serves:
		p.url, p.worker = "http://"+e.Addr, e.Worker
	case <-p.exited:
		t.Fatalf("it has exited: %v", p.cmd.ProcessState)
	case <-time.After(patience):
		t.Fatal("it does not serve")
	}
	return p
}

func (p *instance) keep(line []byte) (e entry) {
	_ = json.Unmarshal(line, &e)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.log = append(p.log, e)
	p.raw.Write(append(line, '\n'))
	return e
}

// created returns the orders that the program has logged.
func (p *instance) created() map[snowflake.ID]entry {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := map[snowflake.ID]entry{}
	for _, e := range p.log {
		if e.Msg == "order created" {
			all[e.ID] = e
		}
	}
	return all
}

// logged waits for the first line of the log with a message, and returns its error.
func (p *instance) logged(msg string) string {
	p.t.Helper()
	for begun := time.Now(); time.Since(begun) < patience; time.Sleep(5 * time.Millisecond) {
		p.mu.Lock()
		i := slices.IndexFunc(p.log, func(e entry) bool { return e.Msg == msg })
		if i >= 0 {
			defer p.mu.Unlock()
			return p.log[i].Error
		}
		p.mu.Unlock()
	}
	p.t.Fatalf("the log has no line %q", msg)
	return ""
}

func (p *instance) terminate() {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Fatal(err)
	}
}

// ended waits until the program has exited with status 0.
func (p *instance) ended() {
	p.t.Helper()
	select {
	case <-p.exited:
	case <-time.After(patience):
		p.t.Fatal("it does not end")
	}
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		p.t.Fatalf("its exit code is %d", code)
	}
}

// get returns the status and the body of an answer.
func (p *instance) get(path string) (int, string) {
	p.t.Helper()
	resp, err := http.Get(p.url + path)
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// await waits until the answer at a path has the status.
func (p *instance) await(path string, status int) (body string) {
	p.t.Helper()
	for begun := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		got, body := p.get(path)
		if got == status {
			return body
		}
		if time.Since(begun) > patience {
			p.t.Fatalf("%s answers %d %s", path, got, body)
		}
	}
}

// post posts an order.
func post(client *http.Client, url, item string) (snowflake.ID, error) {
	resp, err := client.Post(url+"/orders", "application/json", strings.NewReader(fmt.Sprintf(`{"item":%q}`, item)))
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err
	}
	if resp.StatusCode != http.StatusCreated {
		return 0, fmt.Errorf("%s: %s", resp.Status, b)
	}
	var o order
	if err := json.Unmarshal(b, &o); err != nil || o.Item != item || resp.Header.Get("Location") != "/orders/"+o.ID.String() {
		return 0, fmt.Errorf("%s, %v, %v", b, resp.Header, err)
	}
	return o.ID, nil
}

// load is clients that order all the time, at an address that a load balancer can change.
type load struct {
	t    *testing.T
	to   atomic.Pointer[instance]
	stop chan struct{}
	once sync.Once
	all  sync.WaitGroup

	mu  sync.Mutex
	ids map[snowflake.ID]*instance
}

func begin(t *testing.T, to *instance) *load {
	l := &load{t: t, stop: make(chan struct{}), ids: map[snowflake.ID]*instance{}}
	l.to.Store(to)
	for i := range 8 {
		l.all.Go(func() { l.client(i) })
	}
	t.Cleanup(l.end) // also if the test fails
	return l
}

// end ends the clients.
func (l *load) end() {
	l.once.Do(func() { close(l.stop) })
	l.all.Wait()
}

func (l *load) client(i int) {
	client := &http.Client{Transport: new(http.Transport)}
	defer client.CloseIdleConnections()
	for n := 0; ; n++ {
		select {
		case <-l.stop:
			return
		case <-time.After(5 * time.Millisecond):
		}
		to := l.to.Load()
		id, err := post(client, to.url, fmt.Sprint("item ", i, " ", n))
		l.mu.Lock()
		if err != nil {
			l.t.Errorf("client %d: order %d is lost: %v", i, n, err)
		} else if by := l.ids[id]; by != nil {
			l.t.Errorf("%v was issued by %s and by %s", id, by.url, to.url)
		}
		l.ids[id] = to
		l.mu.Unlock()
	}
}

// of returns the orders that an instance has accepted.
func (l *load) of(p *instance) (ids []snowflake.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, by := range l.ids {
		if by == p {
			ids = append(ids, id)
		}
	}
	return ids
}

func (l *load) await(p *instance, n int) {
	l.t.Helper()
	for begun := time.Now(); len(l.of(p)) < n; time.Sleep(time.Millisecond) {
		if l.t.Failed() || time.Since(begun) > patience {
			l.t.Fatalf("%d orders of %d", len(l.of(p)), n)
		}
	}
}

// rollOver lets clients order at a, and tells a to stop. When a says that it is not ready, the clients order
// at b. No order may be lost, and all worker IDs are free in the end.
func rollOver(t *testing.T, store lease.Store, a, b *instance) {
	t.Helper()
	l := begin(t, a)
	l.await(a, 200)
	a.terminate()
	a.await("/readyz", http.StatusServiceUnavailable)
	resp, err := http.Get(a.url + "/livez")
	require.NoError(t, err, "it keeps connections that it is going to close: %v, %v", resp, err)
	require.True(t, resp.Close, "it keeps connections that it is going to close: %v, %v", resp, err)
	resp.Body.Close()
	before := len(l.of(a))
	l.await(a, before+10) // it still serves until the balancer has noticed
	l.to.Store(b)
	l.await(b, 200)
	a.ended()
	l.await(b, len(l.of(b))+200)
	l.end()
	b.terminate()
	b.ended() // then its log is complete
	for _, p := range []*instance{a, b} {
		logged, ids := p.created(), l.of(p)
		for _, id := range ids {
			e, ok := logged[id]
			parts := snowflake.Decode(id)
			if !ok || e.Parts.Worker == nil || *e.Parts.Worker != p.worker || parts.Worker != p.worker ||
				e.Parts.Sequence == nil || *e.Parts.Sequence != parts.Sequence || !e.Parts.Time.Equal(parts.Time) {
				t.Fatalf("of %v (%v), which worker %d issued, the log says %+v", id, parts, p.worker, e)
			}
		}
		assert.Len(t, logged, len(ids), "%d orders are logged, and %d were answered", len(logged), len(ids))
	}
	records, err := lease.Holders(t.Context(), store)
	require.NoError(t, err, records)
	require.GreaterOrEqual(t, len(records), 2, records)
	for _, r := range records {
		assert.Equal(t, lease.Free, r.State, "the worker ID is not free: %v", r)
	}
}

func TestSIGTERMUnderLoadLosesNoOrder(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]func(*testing.T) string{
		"File":   func(t *testing.T) string { return "file:" + t.TempDir() },
		"SQLite": func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "workers.db") },
		"Redis":  func(t *testing.T) string { return startRedis(t).url },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			noOrderIsLost(t, url(t), command)
		})
	}
}

// The program itself knows one store, PostgreSQL; with the tag kubernetes, Kubernetes. So it is a
// quarter of a program with all stores.
func TestProgramHasOneStore(t *testing.T) {
	t.Parallel()
	clients := map[string]string{"": "github.com/jackc/pgx/v5", "kubernetes": "k8s.io/client-go/rest"}
	for tag := range clients {
		out, err := exec.Command("go", "list", "-deps", "-tags", tag, ".").Output()
		require.NoError(t, err)
		packages := strings.Fields(string(out))
		for other, client := range clients {
			if has := slices.Contains(packages, client); has != (tag == other) {
				t.Errorf("with the tag %q it has %s: %v", tag, client, has)
			}
		}
		for _, p := range packages {
			assert.NotContains(t, p, "urllease", "with the tag %q it has %s", tag, p)
		}
	}
	if out, err := exec.Command("go", "vet", "-tags", "kubernetes", ".").CombinedOutput(); err != nil {
		t.Errorf("with the tag kubernetes: %v\n%s", err, out)
	}

	path := filepath.Join(t.TempDir(), "orders")
	if out, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	url := startPostgres(t)
	noOrderIsLost(t, url, func(env []string, args ...string) *exec.Cmd {
		cmd := exec.Command(path, args...)
		cmd.Env = append(os.Environ(), env...)
		return cmd
	})
	out, err := exec.Command(path, "-store", "postgres://u:secret@x:y").CombinedOutput()
	require.Error(t, err, "%v\n%s", err, out)
	require.True(t, bytes.Contains(out, []byte("cannot parse")), "%v\n%s", err, out)
	assert.False(t, bytes.Contains(out, []byte("secret")), "%v\n%s", err, out)
}

// made makes the store of a URL, and returns it. A program would wait for minutes first.
func made(t *testing.T, url string) lease.Store {
	t.Helper()
	store, closeStore, err := urllease.Open(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = closeStore() })
	l, err := lease.Acquire(t.Context(), store, &lease.Options{NewStore: true, Owner: "made"})
	if err == nil {
		err = l.Release(t.Context())
	}
	require.NoError(t, err)
	return store
}

// noOrderIsLost rolls over from a process to another one. The first process' worker ID must be free at once.
func noOrderIsLost(t *testing.T, url string, program func(env []string, args ...string) *exec.Cmd) {
	store := made(t, url)
	run := func(env []string, args ...string) *instance {
		return serving(t, program(env, append([]string{"-addr", "127.0.0.1:0"}, args...)...))
	}
	a := run(nil, "-store", url, "-drain", "3s", "-owner", "a")
	b := run([]string{"STORE=" + url, "DRAIN=0s", "OWNER=b"}) // as a pod gets them
	rollOver(t, store, a, b)
	c := run(nil, "-store", url, "-owner", "a", "-drain", "0s")
	assert.Equal(t, a.worker, c.worker)
}

// redisServer is a server that loses no acknowledged write when it is killed.
type redisServer struct {
	*servertest.Process
	url string
}

func startRedis(t *testing.T) redisServer {
	t.Helper()
	path, port := servertest.Program(t, "redis-server", "redis-server"), servertest.Port(t)
	addr := fmt.Sprint("127.0.0.1:", port)
	return redisServer{url: "redis://" + addr, Process: servertest.Start(t, servertest.Command{
		Path: path, Args: []string{"--port", fmt.Sprint(port), "--bind", "127.0.0.1", "--dir", servertest.Dir(t, ""),
			"--appendonly", "yes", "--appendfsync", "always"},
	}, func() error { return listens(addr) })}
}

func listens(addr string) error {
	c, err := net.Dial("tcp", addr)
	if err == nil {
		c.Close()
	}
	return err
}

// startPostgres starts a server, and returns the URL of its database.
func startPostgres(t *testing.T) string {
	t.Helper()
	url := func(addr string) string { return "postgres://owner@" + addr + "/postgres?sslmode=disable" }
	addr, _ := servertest.Postgres(t, "", func(addr string) error {
		store, closeStore, err := urllease.Open(context.Background(), url(addr))
		if err != nil {
			return err
		}
		defer closeStore()
		_, err = store.Get(context.Background(), "a")
		return err
	})
	return url(addr)
}

// If a request has begun, it is finished after the server has stopped accepting, and before the worker ID is
// released.
func TestBegunRequestIsFinishedBeforeRelease(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := start(t, nil, "-store", "file:"+dir, "-drain", "0s")
	addr := strings.TrimPrefix(p.url, "http://")
	conn, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	defer conn.Close()
	const body = `{"item":"slow"}`
	fmt.Fprintf(conn, "POST /orders HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body[:5])
	p.await("/livez", http.StatusOK) // then the earlier connection has been accepted
	p.terminate()
	for begun := time.Now(); ; time.Sleep(time.Millisecond) {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			break
		}
		c.Close()
		if time.Since(begun) > patience {
			t.Fatal("it does not stop to accept")
		}
	}
	fmt.Fprint(conn, body[5:])
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err, "%v, %v", resp, err)
	require.Equal(t, http.StatusCreated, resp.StatusCode, "%v, %v", resp, err)
	resp.Body.Close()
	p.ended()
	assert.Len(t, p.created(), 1)
}

// If a process is told to stop while it waits for its store, it ends at once with status 0.
func TestSIGTERMBeforeItServesEndsItAtOnce(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // a store that never answers
	require.NoError(t, err)
	defer silent.Close()
	cmd := command(nil, "-addr", "127.0.0.1:0", "-window", "2m", "-store", "redis://"+silent.Addr().String()+"?read_timeout=1h")
	var log strings.Builder
	cmd.Stderr = &log
	require.NoError(t, cmd.Start())
	conn, err := silent.Accept() // the program connects to the store
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	late := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	if err := cmd.Wait(); err != nil || !strings.Contains(log.String(), "told to stop before it served") {
		t.Errorf("%v: %s", err, &log)
	}
}

func TestReadinessFollowsTheLease(t *testing.T) {
	t.Parallel()
	server := startRedis(t)
	made(t, server.url)
	p := start(t, nil, "-store", server.url, "-window", "2s", "-drain", "0s")
	p.await("/readyz", http.StatusOK)
	if _, err := post(http.DefaultClient, p.url, "tea"); err != nil {
		t.Fatal(err)
	}
	server.Kill()
	assert.Equal(t, "not ready\n", p.await("/readyz", http.StatusServiceUnavailable))
	why := p.logged("not ready")
	require.Contains(t, why, "window ended at")
	assert.Contains(t, why, "refused")
	status, _ := p.get("/livez")
	assert.Equal(t, http.StatusOK, status)
	time.Sleep(2 * time.Millisecond) // until the tick in which the window ends is over
	resp, err := http.Post(p.url+"/orders", "", strings.NewReader(`{"item":"tea"}`))
	require.NoError(t, err)
	body, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil || resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") != "1" || string(body) != "no ID can be issued now\n" {
		t.Errorf("an order: %v %s %v", resp, body, err)
	}
	server.Restart()
	p.await("/readyz", http.StatusOK)
	_, err = post(http.DefaultClient, p.url, "tea")
	require.NoError(t, err)
	_, metrics := p.get("/metrics")
	for _, line := range []string{
		"snowflake_ids_issued_total 2", `http_requests_total{code="201"} 2`, `http_requests_total{code="503"} 1`,
		"snowflake_lease_last_renewal_successful 1", "snowflake_worker_id " + fmt.Sprint(p.worker), "go_goroutines ",
	} {
		assert.Contains(t, metrics, "\n"+line, "there is no metric %s in\n%s", line, metrics)
	}
	p.terminate()
	p.ended()
}

func TestInvalidOrdersAreRefused(t *testing.T) {
	t.Parallel()
	p := start(t, nil, "-store", "file:"+t.TempDir())
	for _, test := range []struct {
		body   string
		status int
		says   string
	}{
		{`{"item":`, http.StatusBadRequest, "not JSON"},
		{`{}`, http.StatusBadRequest, `no "item"`},
		{`{"item":"` + strings.Repeat("x", maxOrder) + `"}`, http.StatusBadRequest, "over 65536 bytes"},
	} {
		resp, err := http.Post(p.url+"/orders", "application/json", strings.NewReader(test.body))
		require.NoError(t, err)
		b, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		require.Equal(t, test.status, resp.StatusCode, "%.40s: %d %s", test.body, resp.StatusCode, b)
		assert.True(t, bytes.Contains(b, []byte(test.says)), "%.40s: %d %s", test.body, resp.StatusCode, b)
	}
	status, _ := p.get("/orders")
	assert.Equal(t, http.StatusMethodNotAllowed, status)
}

func TestInvalidFlagsAreRefused(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		env  []string
		args []string
		says string
	}{
		{nil, []string{"-store", "mongodb://x"}, `"mongodb://x" is not the URL of a store`},
		{nil, []string{"-store", "file:"}, `"file:" is not the URL of a store: it has no directory`},
		{nil, []string{"-store", "redis://x:y:z"}, `a host is not a name`},
		{nil, []string{"-store", "redis://u:secret@x:y"}, `redis://u:xxxxx@x:y`},
		{[]string{"KUBECONFIG=", "KUBERNETES_SERVICE_HOST="}, []string{"-store", "kubernetes:"}, "set KUBECONFIG to the path of a kubeconfig"},
		{[]string{"KUBECONFIG=/no/such/file"}, []string{"-store", "kubernetes:"}, "there is no such kubeconfig"},
		{nil, []string{"-window", "-1s"}, `-window -1s`},
		{nil, []string{"-store", "sqlite:/no/such/directory/db"}, `the store: sqllease: `},
		{nil, []string{"extra"}, `"extra" is not a flag`},
		{nil, []string{"-drain", "-1s"}, `-drain -1s`},
		{nil, []string{"-window", "1ns", "-store", "file:" + filepath.Join(t.TempDir(), "x")}, `Window 1ns is under`},
		{[]string{"GRACE=soon"}, nil, `GRACE="soon" is not a duration such as 30s`},
	} {
		out, err := command(test.env, test.args...).CombinedOutput()
		var last entry
		lines := bytes.Split(bytes.TrimSpace(out), []byte("\n"))
		_ = json.Unmarshal(lines[len(lines)-1], &last)
		require.Error(t, err, "%v %v: %v\n%s", test.env, test.args, err, out)
		require.Equal(t, "the service ends", last.Msg, "%v %v: %v\n%s", test.env, test.args, err, out)
		assert.Contains(t, last.Error, test.says, "%v %v: %v\n%s", test.env, test.args, err, out)
	}
}

func TestSecondSignalEndsTheProgramAtOnce(t *testing.T) {
	t.Parallel()
	p := start(t, nil, "-store", "file:"+t.TempDir(), "-drain", "1h")
	begun := time.Now()
	for ended := false; !ended; {
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-p.exited:
			ended = true
		case <-time.After(10 * time.Millisecond):
			if time.Since(begun) > patience {
				t.Fatal("it has not ended")
			}
		}
	}
	assert.False(t, p.cmd.ProcessState.Success(), "it says that nothing was cut off")
}

// testService returns a service in this process.
func testService(t *testing.T) *service {
	t.Helper()
	l, err := lease.Acquire(t.Context(), lease.File(t.TempDir()), &lease.Options{Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(func() { l.Release(context.Background()) })
	gen, err := snowflake.NewLeased(l, nil)
	require.NoError(t, err)
	s, err := newService(gen, l)
	require.NoError(t, err)
	return s
}

func TestReadyOnlyWithinTheWindow(t *testing.T) {
	s := testService(t)
	assert.NoError(t, s.whyNotReady(s.lease.Stats().Bound.Add(-1)))
	err := s.whyNotReady(s.lease.Stats().Bound)
	require.Error(t, err)
	assert.True(t, strings.HasSuffix(err.Error(), "there was no renewal since"))
	require.NoError(t, s.lease.Release(context.Background()))
	assert.Error(t, s.whyNotReady(time.Time{}), "after Release it is ready")
}
