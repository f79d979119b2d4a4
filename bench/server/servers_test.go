//go:build unix

package serverbench

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake/internal/lab/servertest"
)

// program builds snowflaked once.
var program = servertest.Shared(func(t testing.TB) string {
	path := filepath.Join(servertest.Dir(t, ""), "snowflaked")
	build := exec.Command("go", "build", "-o", path, ".")
	build.Dir = filepath.Join("..", "..", "cmd", "snowflaked")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%v: %v\n%s", build, err, out)
	return path
})

// web is an HTTP server in another process.
type web struct {
	*servertest.Process
	addr string
}

func (s web) url() string { return "http://" + s.addr }

// startSnowflaked starts snowflaked with its defaults, a new directory for its worker ID, and a log
// file.
func startSnowflaked(t testing.TB, args ...string) web {
	addr, dir := fmt.Sprint("127.0.0.1:", servertest.Port(t)), servertest.Dir(t, "")
	args = append([]string{"-c", `exec "$0" "$@" 2>log`, program(t), "--listen", addr, "--store", "file:" + dir}, args...)
	return startWeb(t, addr, servertest.Command{Path: "/bin/sh", Args: args, Dir: dir})
}

// startConstant starts this program as a server of the constant.
func startConstant(t testing.TB) web {
	addr := fmt.Sprint("127.0.0.1:", servertest.Port(t))
	path := servertest.Must(os.Executable())(t)
	return startWeb(t, addr, servertest.Command{Path: path, Env: []string{constantEnv + "=" + addr}})
}

func startWeb(t testing.TB, addr string, c servertest.Command) web {
	s := web{addr: addr}
	s.Process = servertest.Start(t, c, func() error {
		r, err := http.Get(s.url() + "/id")
		if err == nil {
			_ = r.Body.Close()
		}
		if err == nil && r.StatusCode != http.StatusOK { // it has no worker ID yet
			err = errors.New(r.Status)
		}
		return err
	})
	return s
}

// The servers that all benchmarks share.
var (
	snowflaked = servertest.Shared(func(t testing.TB) web { return startSnowflaked(t, "--access-log=false") })

	redisServer = servertest.Shared(func(t testing.TB) *redis.Client {
		addr, _ := servertest.Redis(t)
		client := redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true, PoolSize: 2 * workers})
		t.Cleanup(func() { _ = client.Close() })
		return client
	})

	postgres = servertest.Shared(func(t testing.TB) *pgxpool.Pool {
		addr, _ := servertest.Postgres(t, "", nil)
		pool := servertest.Must(pgxpool.New(context.Background(), fmt.Sprintf("%s&pool_max_conns=%d", servertest.PostgresURL(addr), 2*workers)))(t)
		t.Cleanup(pool.Close)
		return pool
	})
)
