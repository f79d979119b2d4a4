//go:build unix

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
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
	"github.com/seed-5394e6b1/snowflake/internal/lab/servertest"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// The tests start the program as a pod is started: the test binary is the program if this variable
// is set, and the other variables are its flags.
const programEnv = "SERVICE_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(programEnv) != "" {
		os.Args = os.Args[:1]
		main()
		return
	}
	os.Exit(servertest.Main(m, nil))
}

var postgres = servertest.Shared(func(t testing.TB) string {
	addr, _ := servertest.Postgres(t, "", func(addr string) error {
		store, closeStore, err := openStore("postgres://owner@" + addr + "/postgres?sslmode=disable")
		if err != nil {
			return err
		}
		defer closeStore()
		_, err = store.Get(context.Background(), "a")
		return err
	})
	return addr
})

// newStore returns a store that was never used, and its URL at the address.
func newStore(t *testing.T, addr string) (store lease.Store, url string) {
	t.Helper()
	schema := servertest.NewSpace()
	url = "postgres://owner@" + addr + "/postgres?sslmode=disable&search_path=" + schema
	_, err := servertest.Open(t, "pgx", url).Exec("CREATE SCHEMA " + schema)
	require.NoError(t, err)
	store, closeStore, err := openStore(url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = closeStore() })
	return store, url
}

// instance is a running program.
type instance struct {
	*servertest.Child
	t      *testing.T
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

// begin starts a program.
func begin(t *testing.T, env ...string) *instance {
	t.Helper()
	env = append([]string{programEnv + "=1", "ADDR=127.0.0.1:0", "DRAIN=0s", "NEW_STORE=true"}, env...)
	p := &instance{Child: servertest.StartChild(t, env...), t: t, exited: make(chan struct{})}
	t.Cleanup(func() {
		p.Kill()
		<-p.exited
		if t.Failed() {
			t.Logf("%q wrote\n%.20000s", env, p.raw.String())
		}
	})
	go func() {
		for line := range p.Lines {
			var e entry
			_ = json.Unmarshal([]byte(line), &e)
			p.mu.Lock()
			p.log = append(p.log, e)
			p.raw.WriteString(line)
			p.mu.Unlock()
		}
		p.Wait()
		close(p.exited)
	}()
	return p
}

// start starts a program, and waits until it serves.
func start(t *testing.T, env ...string) *instance {
	t.Helper()
	p := begin(t, env...)
	e := p.logged("serving")
	p.url, p.worker = "http://"+e.Addr, e.Worker
	return p
}

// logged waits for the first line of the log with a message.
func (p *instance) logged(msg string) (e entry) {
	p.t.Helper()
	servertest.Await(p.t, func() error {
		p.mu.Lock()
		defer p.mu.Unlock()
		i := slices.IndexFunc(p.log, func(e entry) bool { return e.Msg == msg })
		if i < 0 {
			return fmt.Errorf("the log has no line %q", msg)
		}
		e = p.log[i]
		return nil
	})
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

func (p *instance) terminate() {
	p.t.Helper()
	require.NoError(p.t, p.Process().Signal(syscall.SIGTERM))
}

// ended waits until the program has exited with a status.
func (p *instance) ended(status int) {
	p.t.Helper()
	select {
	case <-p.exited:
	case <-time.After(2 * time.Minute):
		p.t.Fatal("it does not end")
	}
	require.Equal(p.t, status, p.State().ExitCode())
}

// get returns the status and the body of an answer.
func (p *instance) get(path string) (int, string) {
	p.t.Helper()
	resp, err := http.Get(p.url + path)
	require.NoError(p.t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	require.NoError(p.t, err)
	return resp.StatusCode, string(b)
}

// await waits until the answer at a path has the status.
func (p *instance) await(path string, status int) (body string) {
	p.t.Helper()
	servertest.Await(p.t, func() error {
		var got int
		if got, body = p.get(path); got != status {
			return fmt.Errorf("%s answers %d %s", path, got, body)
		}
		return nil
	})
	return body
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
	var o order
	err = json.Unmarshal(b, &o)
	if resp.StatusCode != http.StatusCreated || err != nil || o.Item != item || resp.Header.Get("Location") != "/orders/"+o.ID.String() {
		return 0, fmt.Errorf("%s: %s, %v, %w", resp.Status, b, resp.Header, err)
	}
	return o.ID, nil
}

// rows returns the orders that are stored.
func rows(t *testing.T, url string) (items map[snowflake.ID]string) {
	t.Helper()
	all, err := servertest.Open(t, "pgx", url).Query(`SELECT id, item FROM orders`)
	require.NoError(t, err)
	defer all.Close()
	items = map[snowflake.ID]string{}
	for all.Next() {
		var id snowflake.ID
		var item string
		require.NoError(t, all.Scan(&id, &item))
		items[id] = item
	}
	require.NoError(t, all.Err())
	return items
}

// load is clients that order all the time, at an address that a load balancer can change.
type load struct {
	t   *testing.T
	to  atomic.Pointer[instance]
	all sync.WaitGroup
	end func() // ends the clients

	mu  sync.Mutex
	ids map[snowflake.ID]*instance
}

func loaded(t *testing.T, to *instance) *load {
	stop := make(chan struct{})
	l := &load{t: t, ids: map[snowflake.ID]*instance{}}
	l.end = sync.OnceFunc(func() {
		close(stop)
		l.all.Wait()
	})
	l.to.Store(to)
	for i := range 8 {
		l.all.Go(func() { l.client(i, stop) })
	}
	t.Cleanup(l.end) // also if the test fails
	return l
}

func (l *load) client(i int, stop <-chan struct{}) {
	client := &http.Client{Transport: new(http.Transport)}
	defer client.CloseIdleConnections()
	for n := 0; ; n++ {
		select {
		case <-stop:
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

// more waits until an instance has accepted n orders more.
func (l *load) more(p *instance, n int) {
	l.t.Helper()
	before := len(l.of(p))
	servertest.Await(l.t, func() error {
		if has := len(l.of(p)); has < before+n {
			return fmt.Errorf("%d orders after %d", has, before)
		}
		return nil
	})
}

// Clients order at a, which is told to stop. When it says that it is not ready, they order at b. No
// order may be lost, and all worker IDs are free in the end.
func TestSIGTERMUnderLoadLosesNoOrder(t *testing.T) {
	t.Parallel()
	store, url := newStore(t, postgres(t))
	a := start(t, "STORE="+url, "OWNER=a", "DRAIN=1s")
	b := start(t, "STORE="+url, "OWNER=b")
	l := loaded(t, a)
	l.more(a, 100)
	a.terminate()
	a.await("/readyz", http.StatusServiceUnavailable)
	resp, err := http.Get(a.url + "/livez")
	require.NoError(t, err)
	require.True(t, resp.Close, "it keeps connections that it is going to close: %v", resp)
	resp.Body.Close()
	l.more(a, 10) // it still serves until the balancer has noticed
	l.to.Store(b)
	l.more(b, 100)
	a.ended(0)
	l.more(b, 100)
	l.end()
	b.terminate()
	b.ended(0) // then its log is complete
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
		assert.Len(t, logged, len(ids), "more orders are logged than were answered")
	}
	stored := rows(t, url)
	for _, p := range []*instance{a, b} {
		for _, id := range l.of(p) {
			assert.Contains(t, stored, id, "an order that was accepted is not stored")
		}
	}
	assert.Len(t, stored, len(l.ids), "each row was accepted")
	records, err := lease.Holders(t.Context(), store)
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(records), 2, records)
	for _, r := range records {
		assert.Equal(t, lease.StateFree, r.State, "the worker ID is not free: %v", r)
	}
	c := start(t, "STORE="+url, "OWNER=a")
	assert.Equal(t, a.worker, c.worker, "the worker ID was free at once")
}

// If a request has begun, it is finished after the server has stopped accepting, and before the
// worker ID is released.
func TestBegunRequestIsFinishedBeforeRelease(t *testing.T) {
	t.Parallel()
	_, url := newStore(t, postgres(t))
	p := start(t, "STORE="+url)
	addr := strings.TrimPrefix(p.url, "http://")
	conn, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	defer conn.Close()
	const body = `{"item":"slow"}`
	fmt.Fprintf(conn, "POST /orders HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n", len(body))
	answer := bufio.NewReader(conn)
	line, err := answer.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "HTTP/1.1 100 Continue\r\n", line, "the program has begun to read the body")
	_, err = answer.ReadString('\n')
	require.NoError(t, err)
	p.terminate()
	servertest.Await(t, func() error {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			return nil
		}
		c.Close()
		return errors.New("it does not stop to accept")
	})
	fmt.Fprint(conn, body)
	resp, err := http.ReadResponse(answer, nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusCreated, resp.StatusCode)
	resp.Body.Close()
	p.ended(0)
	assert.Len(t, p.created(), 1)
}

// If a process is told to stop while it waits for its store, it ends at once with status 0.
func TestSIGTERMBeforeItServesEndsItAtOnce(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // a store that never answers
	require.NoError(t, err)
	defer silent.Close()
	p := begin(t, "STORE=postgres://u@"+silent.Addr().String()+"/x?sslmode=disable", "WINDOW=2m")
	conn, err := silent.Accept() // the program connects to the store
	require.NoError(t, err)
	defer conn.Close()
	p.terminate()
	p.ended(0)
	p.logged("told to stop before it served")
}

func TestReadinessFollowsTheLease(t *testing.T) {
	t.Parallel()
	proxy := servertest.NewProxy(t, postgres(t))
	_, url := newStore(t, proxy.Addr())
	p := start(t, "STORE="+url, "WINDOW=1s")
	// As often as it takes: on a busy machine the window may end at any time.
	order := func() {
		t.Helper()
		servertest.Await(t, func() error { _, err := post(http.DefaultClient, p.url, "tea"); return err })
	}
	p.await("/readyz", http.StatusOK)
	order()
	proxy.Reset()
	assert.Equal(t, "not ready\n", p.await("/readyz", http.StatusServiceUnavailable))
	assert.Regexp(t, "lease expired: .*connect", p.logged("not ready").Error)
	status, _ := p.get("/livez")
	assert.Equal(t, http.StatusOK, status)
	time.Sleep(2 * time.Millisecond) // until the tick in which the window ends is over
	resp, err := http.Post(p.url+"/orders", "", strings.NewReader(`{"item":"tea"}`))
	require.NoError(t, err)
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	resp.Body.Close()
	assert.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
	assert.Equal(t, "1", resp.Header.Get("Retry-After"))
	assert.Equal(t, "no ID can be issued now\n", string(body))
	proxy.Heal()
	p.await("/readyz", http.StatusOK)
	order()
	_, metrics := p.get("/metrics")
	for _, line := range []string{
		"snowflake_ids_issued_total ", `http_requests_total{code="201"} 2`, `http_requests_total{code="503"} `,
		"snowflake_lease_last_renewal_successful 1", "snowflake_worker_id " + fmt.Sprint(p.worker), "go_goroutines ",
	} {
		assert.Contains(t, metrics, "\n"+line)
	}
	p.terminate()
	p.ended(0)
}

func TestOrderThatIsNotStoredIsRefused(t *testing.T) {
	t.Parallel()
	_, url := newStore(t, postgres(t))
	p := start(t, "STORE="+url)
	_, err := post(http.DefaultClient, p.url, "tea")
	require.NoError(t, err)
	_, err = servertest.Open(t, "pgx", url).Exec(`ALTER TABLE orders ADD CHECK (item <> 'hemlock')`)
	require.NoError(t, err)
	_, err = post(http.DefaultClient, p.url, "hemlock")
	require.ErrorContains(t, err, "503 Service Unavailable: the order was not stored")
	assert.Regexp(t, "violates check constraint", p.logged("the order was not stored").Error)
	again := start(t, "STORE="+url) // the table is there
	_, err = post(http.DefaultClient, again.url, "cocoa")
	require.NoError(t, err)
	assert.ElementsMatch(t, []string{"tea", "cocoa"}, slices.Collect(maps.Values(rows(t, url))))
}

func TestInvalidOrdersAreRefused(t *testing.T) {
	t.Parallel()
	_, url := newStore(t, postgres(t))
	p := start(t, "STORE="+url)
	for body, says := range map[string]string{
		`{"item":`: "not JSON",
		`{}`:       `no "item"`,
		`{"item":"` + strings.Repeat("x", maxOrder) + `"}`: "over 65536 bytes",
	} {
		resp, err := http.Post(p.url+"/orders", "application/json", strings.NewReader(body))
		require.NoError(t, err)
		b, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		assert.Equal(t, http.StatusBadRequest, resp.StatusCode, "%.40s", body)
		assert.Contains(t, string(b), says, "%.40s", body)
	}
	status, _ := p.get("/orders")
	assert.Equal(t, http.StatusMethodNotAllowed, status)
}

func TestFlags(t *testing.T) {
	for says, test := range map[string][2]string{
		"-window -1s":           {"-window=-1s"},
		"-drain -1s":            {"-drain=-1s"},
		`"extra" is not a flag`: {"extra"},
		`GRACE="soon" is not a duration such as 30s`: {"", "soon"},
	} {
		_, err := parse(strings.Fields(test[0]), func(name string) string { return map[string]string{"GRACE": test[1]}[name] })
		assert.ErrorContains(t, err, says)
	}
	c, err := parse([]string{"-drain=1s"}, func(name string) string {
		return map[string]string{"DRAIN": "2s", "GRACE": "3s", "NEW_STORE": "true"}[name]
	})
	require.NoError(t, err)
	assert.Equal(t, config{addr: ":8080", newStore: true, drain: time.Second, grace: 3 * time.Second}, c,
		"a flag counts more than its variable")
}

func TestProgramThatCannotStartSaysWhy(t *testing.T) {
	t.Parallel()
	for says, env := range map[string][]string{
		"cannot parse":        {"STORE=postgres://u:secret@x:y"},
		"the store: sqllease": {"STORE=postgres://nobody@" + postgres(t) + "/postgres?sslmode=disable"},
		"Window 1ns is under": {"STORE=postgres://x", "WINDOW=1ns"},
	} {
		p := begin(t, env...)
		p.ended(1)
		assert.Contains(t, p.logged("the service ends").Error, says)
		assert.NotContains(t, p.raw.String(), "secret")
	}
}

func TestSecondSignalEndsTheProgramAtOnce(t *testing.T) {
	t.Parallel()
	_, url := newStore(t, postgres(t))
	p := start(t, "STORE="+url, "DRAIN=1h")
	servertest.Await(t, func() error {
		_ = p.Process().Signal(syscall.SIGTERM)
		select {
		case <-p.exited:
			return nil
		case <-time.After(10 * time.Millisecond):
			return errors.New("it has not ended")
		}
	})
	assert.False(t, p.State().Success(), "it says that nothing was cut off")
}

// testService returns a service in this process.
func testService(t *testing.T) *service {
	t.Helper()
	l, err := lease.Acquire(t.Context(), lease.File(t.TempDir()), &lease.Options{Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(func() { l.Release(context.Background()) })
	gen, err := snowflake.NewLeased(l, nil)
	require.NoError(t, err)
	s, err := newService(gen, l, func(context.Context, order) error { return nil })
	require.NoError(t, err)
	return s
}

func TestReadyUntilTheRelease(t *testing.T) {
	s := testService(t)
	require.NoError(t, s.whyNotReady())
	require.NoError(t, s.lease.Release(context.Background()))
	require.ErrorIs(t, s.whyNotReady(), lease.ErrReleased)
}

func TestProgramForKubernetesCompiles(t *testing.T) {
	// Read the directory, so that a cached test result counts only while the files are unchanged.
	_, err := os.ReadDir(".")
	require.NoError(t, err)
	out, err := exec.Command("go", "vet", "-tags", "kubernetes", ".").CombinedOutput()
	assert.NoError(t, err, "%s", out)
}
