package sqllease_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/lab/servertest"
	"github.com/seed-5394e6b1/snowflake/lease/sqllease"
)

func (d database) nodes(t testing.TB, table string) *sqllease.Nodes {
	t.Helper()
	return servertest.Must(sqllease.NewNodes(d.open(t), d.dialect, &sqllease.Options{Table: table}))(t)
}

func (d database) nodesCreated(t testing.TB, table string) *sqllease.Nodes {
	t.Helper()
	n := d.nodes(t, table)
	servertest.Do(t, n.Create(t.Context()))
	return n
}

// rows returns the number of rows of a table.
func (d database) rows(t testing.TB, table string) (n int) {
	t.Helper()
	require.NoError(t, d.open(t).QueryRow("SELECT COUNT(*) FROM "+table).Scan(&n))
	return n
}

func nodesRows(t *testing.T, d database) {
	table := newTable()
	n := d.nodesCreated(t, table)
	west := time.FixedZone("", -11*3600)
	node := sqllease.Node{Host: "höst-雪", Port: "8080", Type: sqllease.Actual, LaunchDate: time.Date(2026, 2, 28, 23, 59, 0, 0, west)}
	worker := servertest.Must(n.Assign(t.Context(), node, snowflake.Layout{}))(t)
	var host, port, date string
	var kind, others int
	from := " FROM " + table + fmt.Sprintf(" WHERE ID = %d", worker)
	err := d.open(t).QueryRow(`SELECT HOST_NAME, PORT, TYPE, LAUNCH_DATE, (SELECT COUNT(*) FROM `+table+` WHERE MODIFIED = CREATED)`+from).
		Scan(&host, &port, &kind, &date, &others)
	if err != nil || host != node.Host || port != "8080" || kind != 2 || !strings.HasPrefix(date, "2026-02-28") || others != 1 {
		t.Errorf("the row has %q, %q, %d, %q, %d: %v", host, port, kind, date, others, err)
	}
	servertest.Must(n.Assign(t.Context(), sqllease.Node{}, snowflake.Layout{}))(t)
}

func nodesOutOfRange(t *testing.T, d database) {
	table := newTable()
	n := d.nodesCreated(t, table)
	layout := snowflake.Layout{Unit: time.Millisecond, TimeBits: 41, WorkerBits: 3, SequenceBits: 19}
	for want := 1; want <= 7; want++ {
		require.Equal(t, want, servertest.Must(n.Assign(t.Context(), sqllease.Node{}, layout))(t))
	}
	_, err := n.Assign(t.Context(), sqllease.Node{}, snowflake.Layout{TimeBits: 99})
	assert.ErrorIs(t, err, snowflake.ErrInvalidLayout)
	for used := 8; used <= 9; used++ {
		_, err := n.Assign(t.Context(), sqllease.Node{}, layout)
		var e *snowflake.FieldRangeError
		require.ErrorIs(t, err, snowflake.ErrWorkerRange)
		require.ErrorAs(t, err, &e)
		assert.Equal(t, used, e.Value)
		assert.Equal(t, 7, e.Max)
		assert.ErrorContains(t, err, table)
	}
	assert.Equal(t, 10, servertest.Must(n.Assign(t.Context(), sqllease.Node{}, snowflake.Layout{}))(t))
}

// nodesUncounted: if the database does not increment the table's ID, the table is refused and not
// changed.
func nodesUncounted(t *testing.T, d database) {
	for _, kind := range []string{"BIGINT", "BIGINT DEFAULT 0", "BIGINT DEFAULT -1", "BIGINT PRIMARY KEY"} {
		table := newTable()
		d.exec(t, "CREATE TABLE "+table+" (ID "+kind+", HOST_NAME VARCHAR(64), PORT VARCHAR(64), TYPE INT, LAUNCH_DATE DATE, "+
			"MODIFIED TIMESTAMP NULL, CREATED TIMESTAMP NULL)")
		_, err := d.nodes(t, table).Assign(t.Context(), sqllease.Node{}, snowflake.Layout{})
		assert.ErrorContains(t, err, table, kind)
		assert.Zero(t, d.rows(t, table), kind)
	}
}

func nodesWithoutTable(t *testing.T, d database) {
	table := newTable()
	_, err := d.nodes(t, table).Assign(t.Context(), sqllease.Node{}, snowflake.Layout{})
	require.ErrorIs(t, err, sqllease.ErrNoTable)
	assert.ErrorContains(t, err, table)
}
