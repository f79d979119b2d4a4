package sqltext

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/layouts"
)

// The tests in internal/lab/drivers/sqllease check the results of the expressions on servers. They
// have no ClickHouse, SQL Server, Oracle, BigQuery and Snowflake, so these tests read their texts.

func TestEveryKnownLayoutHasFunctions(t *testing.T) {
	for _, k := range layouts.All() {
		for _, e := range Engines() {
			text, err := Script(e, k.Layout, "s_")
			require.NoError(t, err, "%s for %s", e, k.Name)
			assert.Equal(t, strings.Count(text, "("), strings.Count(text, ")"), text)
			assert.Contains(t, text, "s_time(id)")
			assert.NotContains(t, text, "%!")
		}
	}
}

func TestClickHouse(t *testing.T) {
	fs, err := Functions(ClickHouse, snowflake.DefaultLayout())
	require.NoError(t, err)
	bodies := map[string]string{}
	for _, f := range fs {
		bodies[f.Name] = f.Body
	}
	assert.Equal(t, map[string]string{
		"valid":    "id BETWEEN 0 AND 9223372036854775807",
		"time":     "CASE WHEN id BETWEEN 0 AND 9223372036854775807 THEN fromUnixTimestamp64Micro(toInt64(intDiv(bitShiftRight(id, 22), 86400000) * 86400000000 + ((bitShiftRight(id, 22) % 86400000) * 1000) + 1767225600000000), 'UTC') END",
		"sequence": "CASE WHEN id BETWEEN 0 AND 9223372036854775807 THEN bitAnd(id, 4095) END",
		"worker":   "CASE WHEN id BETWEEN 0 AND 9223372036854775807 THEN bitAnd(bitShiftRight(id, 12), 1023) END",
		"first": "CASE WHEN (toUnixTimestamp64Micro(toDateTime64(t, 6, 'UTC')) - 1767225600000000) <= 0 THEN 0 " +
			"WHEN intDiv(((toUnixTimestamp64Micro(toDateTime64(t, 6, 'UTC')) - 1767225600000000) + 999), 1000) > 2199023255551 THEN toInt64(9223372036854775807) " +
			"ELSE bitShiftLeft(intDiv(((toUnixTimestamp64Micro(toDateTime64(t, 6, 'UTC')) - 1767225600000000) + 999), 1000), 22) END",
	}, bodies)
}

// Where an engine has no shifts, or no condition as a value, arithmetic and CASE take their place.
func TestEnginesWithoutShifts(t *testing.T) {
	for e, want := range map[Engine]map[string]string{
		SQLServer: {
			"valid":  "CASE WHEN id BETWEEN 0 AND 9223372036854775807 THEN 1 ELSE 0 END",
			"worker": "CASE WHEN id BETWEEN 0 AND 9223372036854775807 THEN ((id / CAST(4096 AS bigint)) & CAST(1023 AS bigint)) END",
		},
		Oracle: {
			"valid":    "CASE WHEN id BETWEEN 0 AND 9223372036854775807 THEN 1 ELSE 0 END",
			"worker":   "CASE WHEN id BETWEEN 0 AND 9223372036854775807 THEN BITAND(FLOOR(id / 4096), 1023) END",
			"sequence": "CASE WHEN id BETWEEN 0 AND 9223372036854775807 THEN BITAND(id, 4095) END",
		},
		BigQuery: {
			"valid": "id BETWEEN 0 AND 9223372036854775807",
			"time": "CASE WHEN id BETWEEN 0 AND 9223372036854775807 THEN " +
				"TIMESTAMP_MICROS(DIV((id >> 22), 86400000) * 86400000000 + (MOD((id >> 22), 86400000) * 1000) + 1767225600000000) END",
		},
		Snowflake: {
			"worker": "CASE WHEN id BETWEEN 0 AND 9223372036854775807 THEN BITAND(BITSHIFTRIGHT(id, 12), 1023) END",
		},
	} {
		fs, err := Functions(e, snowflake.DefaultLayout())
		require.NoError(t, err)
		for _, f := range fs {
			if body, ok := want[f.Name]; ok {
				assert.Equal(t, body, f.Body, e)
			}
		}
	}
}

func TestRefusedLayouts(t *testing.T) {
	_, err := Functions(PostgreSQL, snowflake.Layout{})
	assert.ErrorIs(t, err, snowflake.ErrInvalidLayout)
	for _, unit := range []time.Duration{7 * time.Millisecond, 3, 1500, 48 * time.Hour} {
		_, err := Functions(PostgreSQL, snowflake.Layout{Unit: unit, TimeBits: 20})
		assert.ErrorIs(t, err, ErrUnit)
		assert.ErrorContains(t, err, unit.String())
	}
}

func TestGenerator(t *testing.T) {
	none := snowflake.Layout{Unit: time.Millisecond, TimeBits: 41, SequenceBits: 12}
	for _, want := range []struct {
		layout               snowflake.Layout
		worker, first, count int
	}{
		{snowflake.DefaultLayout(), 1023, 0, 1023},
		{snowflake.DefaultLayout(), 0, 1, 1023},
		{snowflake.DefaultLayout(), 600, 0, 600},
		{snowflake.JSSafeLayout(), 7, 8, 8},
		{none, 0, 0, 0},
	} {
		g := Generator{Layout: want.layout, Worker: want.worker, Schema: "public", Prefix: "s_"}
		first, count := g.Leases()
		assert.Equal(t, []int{want.first, want.count}, []int{first, count})
		text, err := g.Script()
		require.NoError(t, err)
		assert.Contains(t, text, "-- "+g.About())
		assert.NotRegexp(t, `\{[a-z]|%!`, text)
	}
	for layout, want := range map[snowflake.Layout]error{
		{}: snowflake.ErrInvalidLayout,
		{Unit: time.Millisecond, TimeBits: 42, WorkerBits: 2}:                       ErrState,
		{Unit: time.Millisecond, TimeBits: 40, WorkerBits: 2, SequenceBits: 21}:     ErrState,
		{Unit: 2 * time.Second, TimeBits: 41, WorkerBits: 2}:                        ErrState,
		{Unit: 1500 * time.Nanosecond, TimeBits: 41, WorkerBits: 2}:                 ErrUnit,
		{Unit: time.Millisecond, TimeBits: 41, DatacenterBits: 1, SequenceBits: 12}: snowflake.ErrWorkerRange,
	} {
		_, err := Generator{Layout: layout, Worker: 2, Schema: "public", Prefix: "s_"}.Script()
		require.ErrorIs(t, err, want)
	}
}
