//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/lab/servertest"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// The test starts the program as a pod is started: the test binary is the program if this variable
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

// start starts the program, and returns it and its URL.
func start(t *testing.T, env ...string) (program *servertest.Child, url string) {
	t.Helper()
	program = servertest.StartChild(t, append(env, programEnv+"=1", "ADDR=127.0.0.1:0", "DRAIN=0s", "NEW_STORE=true")...)
	serves := make(chan string)
	go func() {
		defer close(serves)
		for line := range program.Lines {
			var e struct{ Msg, Addr string }
			if _ = json.Unmarshal([]byte(line), &e); e.Msg == "serving" {
				serves <- "http://" + e.Addr
			}
			t.Log(strings.TrimSpace(line))
		}
	}()
	url, ok := <-serves
	require.True(t, ok, "it does not serve")
	t.Cleanup(func() {
		program.Kill()
		<-serves
	})
	return program, url
}

// ask makes a request, and returns the status, the header and the body of the answer.
func ask(t *testing.T, method, url, body string) (int, http.Header, string) {
	t.Helper()
	req := servertest.Must(http.NewRequest(method, url, strings.NewReader(body)))(t)
	resp := servertest.Must(http.DefaultClient.Do(req))(t)
	defer resp.Body.Close()
	b := servertest.Must(io.ReadAll(resp.Body))(t)
	return resp.StatusCode, resp.Header, string(b)
}

// The service stores orders under IDs of its worker ID, refuses bodies that are not an order, is
// not ready during an outage of its database, recovers without help, and releases its worker ID
// when it is told to stop. The requests of that moment are tested with snowflaked, which does the
// same.
func TestService(t *testing.T) {
	addr, _ := servertest.Postgres(t, "", nil)
	proxy := servertest.NewProxy(t, addr)
	dsn := servertest.PostgresURL(proxy.Addr())
	program, url := start(t, "STORE="+dsn, "WINDOW=1s", "OWNER=a")
	order := func() (id snowflake.ID) {
		t.Helper()
		servertest.Await(t, func() error { // on a busy machine the window may end at any time
			status, header, body := ask(t, http.MethodPost, url+"/orders", `{"item":"tea"}`)
			var o order
			if err := json.Unmarshal([]byte(body), &o); status != http.StatusCreated || err != nil {
				return fmt.Errorf("%d %s: %w", status, body, err)
			}
			assert.Equal(t, "/orders/"+o.ID.String(), header.Get("Location"))
			id = o.ID
			return nil
		})
		return id
	}
	answers := func(path string, status int) (body string) {
		t.Helper()
		servertest.Await(t, func() error {
			got, _, is := ask(t, http.MethodGet, url+path, "")
			if body = is; got != status {
				return fmt.Errorf("%s answers %d %s", path, got, body)
			}
			return nil
		})
		return body
	}
	answers("/readyz", http.StatusOK)
	first := order()
	for body, says := range map[string]string{`{"item":`: "not JSON", `{}`: `no "item"`} {
		status, _, b := ask(t, http.MethodPost, url+"/orders", body)
		assert.Equal(t, http.StatusBadRequest, status, body)
		assert.Contains(t, b, says)
	}
	proxy.Reset()
	assert.Equal(t, "not ready\n", answers("/readyz", http.StatusServiceUnavailable))
	answers("/livez", http.StatusOK)
	status, header, _ := ask(t, http.MethodPost, url+"/orders", `{"item":"tea"}`)
	assert.Equal(t, http.StatusServiceUnavailable, status)
	assert.Equal(t, "1", header.Get("Retry-After"))
	proxy.Heal()
	last := order()
	store, closeStore, err := openStore(dsn)
	require.NoError(t, err)
	defer closeStore()
	var records []lease.Holder
	servertest.Await(t, func() (err error) { // on a busy machine a renewal may be late
		records, err = lease.Holders(t.Context(), store)
		if err == nil && (len(records) != 1 || records[0].State != lease.StateHeld) {
			err = fmt.Errorf("the holders are %+v", records)
		}
		return err
	})
	worker := snowflake.Decode(last).Worker
	assert.Equal(t, worker, records[0].Worker)
	assert.Equal(t, worker, snowflake.Decode(first).Worker)
	metrics := answers("/metrics", http.StatusOK)
	for _, line := range []string{`http_requests_total{code="201"} 2`, fmt.Sprint("snowflake_worker_id ", worker), "go_goroutines "} {
		assert.Contains(t, metrics, "\n"+line)
	}
	var stored int
	require.NoError(t, servertest.Open(t, "pgx", dsn).QueryRow(
		`SELECT count(*) FROM orders WHERE id IN ($1, $2) AND item = 'tea'`, first, last).Scan(&stored))
	assert.Equal(t, 2, stored)

	require.NoError(t, program.Process().Signal(syscall.SIGTERM))
	program.Wait()
	require.Zero(t, program.State().ExitCode())
	records = servertest.Must(lease.Holders(t.Context(), store))(t)
	assert.Equal(t, lease.StateFree, records[0].State)
}

func TestProgramForKubernetesCompiles(t *testing.T) {
	// Read the directory, so that a cached test result counts only while the files are unchanged.
	servertest.Must(os.ReadDir("."))(t)
	out, err := exec.Command("go", "vet", "-tags", "kubernetes", ".").CombinedOutput()
	assert.NoError(t, err, "%s", out)
}
