//go:build unix

package main

import (
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// With --log-format json each line is JSON, also what the stores' drivers write while the store
// hangs up.
func TestEachLineOfTheLogIsJSON(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"redis://:secret@ADDR", "mysql://u:secret@ADDR/ids", "postgres://u:secret@ADDR/ids", "etcd://ADDR",
		"zk://ADDR", "nats://u:secret@ADDR", "kubernetes:x",
	} {
		t.Run(url, func(t *testing.T) {
			t.Parallel()
			hangsUp, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			defer hangsUp.Close()
			var attempts atomic.Int64
			go func() {
				for conn, err := hangsUp.Accept(); err == nil; conn, err = hangsUp.Accept() {
					conn.Close()
					attempts.Add(1)
				}
			}()
			kubeconfig := filepath.Join(t.TempDir(), "config")
			require.NoError(t, os.WriteFile(kubeconfig, fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Config","current-context":"x","clusters":[{"name":"x","cluster":{"server":"http://%s"}}],
				"contexts":[{"name":"x","context":{"cluster":"x","user":"x","namespace":"x"}}],"users":[{"name":"x","user":{}}]}`, hangsUp.Addr()), 0o600))
			store := strings.Replace(url, "ADDR", hangsUp.Addr().String(), 1)
			p := launch(t, nil, []string{"KUBECONFIG=" + kubeconfig, "SNOWFLAKED_STORE=" + store})
			await(t, "the driver's second attempt", func() bool { return attempts.Load() >= 2 })
			p.signal(syscall.SIGTERM)
			p.ended()
			assert.NotContains(t, p.log.String(), "secret")
		})
	}
}

// If the server cannot start, the last line is JSON, too, and has the cause.
func TestFailureIsLoggedAsJSON(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"--store", "file:/dev/null/x"}, {"--store", "nothing:x"}, {"--token-file", "/nothing"}} {
		p := launch(t, nil, []string{"XDG_STATE_HOME=" + t.TempDir()}, args...)
		assert.NotEmpty(t, p.awaitLog("the server ends")["error"], args)
		await(t, "the end", func() bool { return isClosed(p.gone) })
		assert.Error(t, p.err)
	}
}

// Durations are texts, as in the lines of the lease: JSON would have them in nanoseconds.
func TestDurationsAreReadableInJSON(t *testing.T) {
	var log strings.Builder
	(&config{logFormat: "json"}).logger(&log).Info("taking", "giveUpAfter", 5*time.Minute)
	assert.Contains(t, log.String(), `"giveUpAfter":"5m0s"`)
}

// A message of a driver is one line at debug, and is logged once.
func TestDriversSayEachThingOnce(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	d := &driver{log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})), said: map[string]bool{}}
	for attempt := range 5 {
		d.Printf(t.Context(), "failed to dial after %d attempts:\n\trefused", attempt)
		fmt.Fprintf(d, "W1126 16:00:0%d another\n", attempt)
	}
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	require.Len(t, lines, 2)
	assert.Contains(t, lines[0], `level=DEBUG msg="the driver's own message" text="failed to dial after 0 attempts: refused"`)
}
