//go:build unix

package sqllease_test

import (
	"bufio"
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/lab/install/installed"
	"github.com/seed-5394e6b1/snowflake/internal/lab/servertest"
	"github.com/seed-5394e6b1/snowflake/internal/sqltext"
)

// duckDB runs the statements of its input, one JSON text a line, and writes a line with an error or
// the first value for each.
const duckDB = `
const { DuckDBInstance } = require("@duckdb/node-api");
const { createInterface } = require("node:readline");
(async () => {
	const connection = await (await DuckDBInstance.create(":memory:")).connect();
	for await (const line of createInterface({ input: process.stdin })) {
		let answer;
		try {
			const rows = (await connection.runAndReadAll(JSON.parse(line))).getRows();
			answer = { value: rows.length ? rows[0][0] : null };
		} catch (e) {
			answer = { error: e.message };
		}
		console.log(JSON.stringify(answer));
	}
})();`

func TestFunctionsOfDuckDB(t *testing.T) {
	t.Parallel()
	node := servertest.Program(t, "nodejs", "node")
	c := exec.CommandContext(t.Context(), node, "-e", duckDB)
	c.Dir, c.Stderr = installed.Need(t, installed.DuckDB), os.Stderr
	in := servertest.Must(c.StdinPipe())(t)
	out := bufio.NewScanner(servertest.Must(c.StdoutPipe())(t))
	servertest.Do(t, c.Start())
	t.Cleanup(func() {
		in.Close()
		_ = c.Wait() // it ends with its input
	})
	query := func(t *testing.T, statement string) sql.NullString {
		t.Helper()
		servertest.Must(fmt.Fprintf(in, "%s\n", servertest.Must(json.Marshal(statement))(t)))(t)
		require.True(t, out.Scan(), "DuckDB ended: %v", out.Err())
		var answer struct{ Value, Error *string }
		servertest.Do(t, json.Unmarshal(out.Bytes(), &answer))
		if answer.Error != nil {
			require.Fail(t, "refused", "%s: %s", statement, *answer.Error)
		}
		if answer.Value == nil {
			return sql.NullString{}
		}
		return sql.NullString{String: *answer.Value, Valid: true}
	}
	holdFunctions(t, time.Microsecond, func(t *testing.T, l snowflake.Layout, prefix string) caller {
		for _, statement := range script(t, sqltext.DuckDB, l, prefix) {
			query(t, statement)
		}
		return func(name string, value any) sql.NullString {
			switch at, is := value.(time.Time); {
			case is:
				return query(t, fmt.Sprintf("SELECT CAST(%s%s('%s') AS VARCHAR)", prefix, name, at.UTC().Format("2006-01-02 15:04:05.000000")))
			case name == "time":
				return query(t, fmt.Sprintf("SELECT strftime(%s%s(%v), '%%Y-%%m-%%d %%H:%%M:%%S.%%f')", prefix, name, value))
			}
			return query(t, fmt.Sprintf("SELECT CAST(%s%s(%v) AS VARCHAR)", prefix, name, value))
		}
	})
}
