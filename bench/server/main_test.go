//go:build unix

package serverbench

import (
	"log"
	"net/http"
	"os"
	"testing"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/lab/servertest"
	"github.com/seed-5394e6b1/snowflake/server"
)

// constantEnv is the environment variable with the address at which this process serves a constant
// instead of measuring.
const constantEnv = "SNOWFLAKE_BENCH_CONSTANT"

func TestMain(m *testing.M) {
	if os.Getenv(hostURL) != "" {
		processOfHost()
		return
	}
	if addr := os.Getenv(constantEnv); addr != "" {
		log.Fatal(serveConstant(addr))
	}
	os.Exit(servertest.Main(m, nil))
}

// constant is as long as a current ID.
var constant = []byte("117920943547875328\n")

// serveConstant serves a constant with the limits and timeouts of snowflaked. It sets the
// Content-Type, so that net/http does not detect it.
func serveConstant(addr string) error {
	gen, err := snowflake.New(0, nil)
	if err != nil {
		return err
	}
	s, err := server.New(gen, nil)
	if err != nil {
		return err
	}
	h := s.HTTPServer(addr)
	h.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = w.Write(constant) // fails if the client is gone
	})
	return h.ListenAndServe()
}
