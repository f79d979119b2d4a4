//go:build unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/lab/depth"
	"github.com/seed-5394e6b1/snowflake/internal/lab/servertest"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/redislease"
)

// The tests start the program as a platform does: the test binary is the program if this variable
// is set.
const programEnv = "SERVERLESS_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(programEnv) != "" {
		main()
		return
	}
	depth.TempDirInMemory()
	os.Exit(m.Run())
}

// patience bounds a test's waits for events that must happen, even on a slow machine.
const patience = time.Minute

// startRedis starts a server, and makes its store as the page says. It returns the server's URL and
// the store.
func startRedis(t *testing.T) (url string, store lease.Store) {
	addr, _ := servertest.Redis(t)
	client := redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = client.Close() })
	store, err := redislease.New(client, nil)
	require.NoError(t, err)
	url = "redis://" + addr
	out, err := program(t, url, "new-store").CombinedOutput()
	require.NoError(t, err, "%v: %s", err, out)
	return url, store
}

func program(t *testing.T, url string, args ...string) *exec.Cmd {
	exe := servertest.Must(os.Executable())(t)
	cmd := exec.Command(exe, args...)
	cmd.Env = append(os.Environ(), programEnv+"=1", "REDIS_URL="+url)
	return cmd
}

// start starts a program that is killed when the test ends.
func start(t *testing.T, cmd *exec.Cmd) (exited chan error) {
	cmd.Stderr = t.Output()
	require.NoError(t, cmd.Start())
	exited = make(chan error, 1)
	gone := make(chan struct{})
	go func() { exited <- cmd.Wait(); close(gone) }()
	t.Cleanup(func() { _ = cmd.Process.Kill(); <-gone })
	return exited
}

// held returns how many worker IDs are held.
func held(t *testing.T, store lease.Store) (n int) {
	t.Helper()
	all := servertest.Must(lease.Holders(t.Context(), store))(t)
	for _, r := range all {
		if r.State == lease.StateHeld {
			n++
		}
	}
	return n
}

// lambdaAPI is the part of Lambda that the program asks for requests.
type lambdaAPI struct {
	events, answers chan string
	registered      chan string // the extensions' names
}

func (l *lambdaAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	switch _, path, _ := strings.Cut(r.URL.Path[1:], "/"); {
	case path == "runtime/invocation/next":
		select {
		case event := <-l.events:
			w.Header().Set("Lambda-Runtime-Aws-Request-Id", "1")
			w.Header().Set("Lambda-Runtime-Deadline-Ms", fmt.Sprint(time.Now().Add(patience).UnixMilli()))
			fmt.Fprint(w, event)
		case <-r.Context().Done():
		}
	case strings.HasPrefix(path, "runtime/invocation/"): // .../response or .../error
		w.WriteHeader(http.StatusAccepted)
		l.answers <- string(body)
	case path == "extension/register":
		w.Header().Set("Lambda-Extension-Identifier", "1")
		fmt.Fprint(w, "{}")
		l.registered <- r.Header.Get("Lambda-Extension-Name")
	default: // extension/event/next
		<-r.Context().Done()
	}
}

// As on Lambda, the program is stopped at each answer, and continues at the next request. Its IDs
// increase. On SIGTERM, for which it has registered, it releases its worker ID, and it ends when it
// is killed.
func TestOnLambda(t *testing.T) {
	t.Parallel()
	url, store := startRedis(t)
	api := &lambdaAPI{make(chan string), make(chan string), make(chan string, 1)}
	server := httptest.NewServer(api)
	defer server.Close()
	cmd := program(t, url)
	cmd.Env = append(cmd.Env, "AWS_LAMBDA_RUNTIME_API="+strings.TrimPrefix(server.URL, "http://"),
		"AWS_LAMBDA_LOG_STREAM_NAME=2026/11/23/[1]abc")
	exited := start(t, cmd)
	signal := func(s os.Signal) {
		t.Helper()
		require.NoError(t, cmd.Process.Signal(s))
	}
	var last snowflake.ID
	for range 20 {
		api.events <- `{"item":"tea"}`
		var got order
		select {
		case answer := <-api.answers:
			require.NoError(t, json.Unmarshal([]byte(answer), &got), answer)
		case <-time.After(patience):
			t.Fatal("no answer")
		}
		signal(syscall.SIGSTOP)
		require.Greater(t, got.ID, last, "%+v after %v", got, last)
		assert.Equal(t, "tea", got.Item, "%+v after %v", got, last)
		last = got.ID
		time.Sleep(20 * time.Millisecond)
		signal(syscall.SIGCONT)
	}
	assert.Len(t, api.registered, 1, "the program has no extension, so Lambda does not send it SIGTERM")
	assert.Equal(t, 1, held(t, store))
	h, err := lease.Whois(t.Context(), store, last)
	require.NoError(t, err, h)
	assert.Equal(t, "2026/11/23/[1]abc", h.Owner, h)
	signal(syscall.SIGTERM)
	require.Eventually(t, func() bool { return held(t, store) == 0 }, patience, 10*time.Millisecond, "the worker ID is not free")
	signal(syscall.SIGKILL)
	<-exited
}

// As on Cloud Run, the program serves at PORT until SIGTERM. Then it gives its worker ID back, and
// ends.
func TestOnCloudRun(t *testing.T) {
	t.Parallel()
	url, store := startRedis(t)
	cmd := program(t, url)
	port := servertest.Port(t)
	cmd.Env = append(cmd.Env, fmt.Sprint("PORT=", port))
	exited := start(t, cmd)
	post := func(body string) (*http.Response, error) {
		return http.Post(fmt.Sprintf("http://127.0.0.1:%d", port), "application/json", strings.NewReader(body))
	}
	var resp *http.Response
	require.Eventually(t, func() (serves bool) {
		var err error
		resp, err = post(`{"item":"tea"}`)
		return err == nil
	}, patience, 10*time.Millisecond)
	var got order
	require.NoError(t, json.NewDecoder(resp.Body).Decode(&got))
	assert.Equal(t, "tea", got.Item)
	resp.Body.Close()
	h, err := lease.Whois(t.Context(), store, got.ID)
	assert.NoError(t, err, h)
	resp, err = post("tea")
	require.NoError(t, err, resp)
	assert.Equal(t, http.StatusBadRequest, resp.StatusCode, resp)
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	select {
	case err := <-exited:
		assert.NoError(t, err)
	case <-time.After(patience):
		t.Fatal("it does not end")
	}
	assert.Zero(t, held(t, store))
}

// Without the argument new-store, a start under a store without entries fails before Lambda's Init
// phase of 10 s ends, and says why.
func TestStoreThatWasNotMade(t *testing.T) {
	url, _ := startRedis(t)
	o, err := redis.ParseURL(url)
	require.NoError(t, err)
	client := redis.NewClient(o)
	defer client.Close()
	require.NoError(t, client.FlushAll(t.Context()).Err())
	t.Setenv("REDIS_URL", url)
	var ctx context.Context // if the store is busy, a second may not do
	for limit := depth.Of(time.Second, 10*time.Second); limit <= 10*time.Second && !errors.Is(err, lease.ErrWiped); limit *= 3 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(t.Context(), limit)
		defer cancel()
		_, err = open(ctx, false)
	}
	assert.ErrorIs(t, err, lease.ErrWiped)
	if depth.Full() {
		assert.NoError(t, ctx.Err())
	}
}
