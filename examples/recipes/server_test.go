//go:build unix

package recipes

import (
	"os"
	"testing"

	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/lab/servertest"
)

func TestMain(m *testing.M) { os.Exit(servertest.Main(m, nil)) }

func newGenerator(t testing.TB) *snowflake.Generator {
	t.Helper()
	return servertest.Must(snowflake.New(7, nil))(t)
}

func nextID(t testing.TB, gen *snowflake.Generator) snowflake.ID {
	t.Helper()
	return servertest.Must(gen.NextID())(t)
}

// startPostgres returns the URL of a server of the test's own.
func startPostgres(t testing.TB) string {
	addr, _ := servertest.Postgres(t, "", nil)
	return servertest.PostgresURL(addr)
}

// startMariaDB returns the DSN of a server of the test's own.
func startMariaDB(t testing.TB) string {
	addr, _ := servertest.MariaDB(t, nil)
	return servertest.MariaDBDSN(addr) + "test?parseTime=true"
}
