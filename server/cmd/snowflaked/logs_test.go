//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake/internal/depth"
	"github.com/seed-5394e6b1/snowflake/internal/servertest"
)

// With -log-format json each line is JSON, also what the stores' drivers write while the store hangs up or is away.
func TestEachLineOfTheLogIsJSON(t *testing.T) {
	t.Parallel()
	hangsUp, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = hangsUp.Close() })
	go func() {
		for conn, err := hangsUp.Accept(); err == nil; conn, err = hangsUp.Accept() {
			conn.Close()
		}
	}()
	away := fmt.Sprint("127.0.0.1:", servertest.Port(t))
	for _, addr := range depth.Of([]string{hangsUp.Addr().String()}, []string{hangsUp.Addr().String(), away}) {
		kubeconfig := filepath.Join(t.TempDir(), "config")
		require.NoError(t, os.WriteFile(kubeconfig, fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Config","current-context":"x","clusters":[{"name":"x","cluster":{"server":"http://%s"}}],
			"contexts":[{"name":"x","context":{"cluster":"x","user":"x","namespace":"x"}}],"users":[{"name":"x","user":{}}]}`, addr), 0o600))
		for _, url := range []string{"redis://:secret@" + addr, "mysql://u:secret@" + addr + "/ids", "postgres://u:secret@" + addr + "/ids", "etcd://" + addr, "zk://" + addr, "nats://u:secret@" + addr, "kubernetes:x"} {
			t.Run(url, func(t *testing.T) {
				t.Parallel()
				cmd := program([]string{"KUBECONFIG=" + kubeconfig, "SNOWFLAKED_STORE=" + url}, "-listen", "127.0.0.1:0", "-log-format", "json")
				var log lockedBuffer
				cmd.Stderr = &log
				require.NoError(t, cmd.Start())
				await(t, "the first line", func() bool { return strings.Contains(log.String(), "taking a worker ID") })
				time.Sleep(2 * time.Second) // for the drivers' own attempts
				_ = cmd.Process.Signal(syscall.SIGTERM)
				_ = cmd.Wait()
				for line := range strings.Lines(log.String()) {
					assert.True(t, json.Valid([]byte(line)) && !strings.Contains(line, "secret"), line)
				}
			})
		}
	}
}

// If the server cannot start, the last line is JSON, too, and has the cause.
func TestFailureIsLoggedAsJSON(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"-store", "file:/dev/null/x"}, {"-store", "nothing:x"}, {"-token-file", "/nothing"}} {
		cmd := program([]string{"XDG_STATE_HOME=" + t.TempDir()}, append(args, "-listen", "127.0.0.1:0", "-log-format", "json")...)
		var log lockedBuffer
		cmd.Stderr = &log
		assert.Error(t, cmd.Run(), args)
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		var last struct{ Level, Error string }
		require.NoError(t, json.Unmarshal([]byte(lines[len(lines)-1]), &last), &log)
		assert.Equal(t, "ERROR", last.Level, args)
		assert.NotEmpty(t, last.Error, args)
	}
}

// Durations are texts, as in the lines of the lease: JSON would have them in nanoseconds.
func TestDurationsAreReadableInJSON(t *testing.T) {
	var log strings.Builder
	(&config{logFormat: "json"}).logger(&log).Info("taking", "give_up_after", 5*time.Minute)
	assert.Contains(t, log.String(), `"give_up_after":"5m0s"`)
}
