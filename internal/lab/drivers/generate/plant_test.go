//go:build unix

package generate_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/follow"
	"github.com/seed-5394e6b1/snowflake/internal/lab/servertest"
	"github.com/seed-5394e6b1/snowflake/internal/sqltext"
)

// plant creates operators and functions in a schema in which all roles may create some. PostgreSQL
// calls them if no function of pg_catalog has the same name and exactly the types of the call.
const plant = `DO $plant$
DECLARE
	types text[] := '{bigint,integer,numeric,float8,interval,timestamp,timestamptz,text,varchar,regclass}';
	a text; b text; name text;
BEGIN
	FOREACH a IN ARRAY types LOOP
		FOREACH name IN ARRAY '{nextval,pg_sequence_last_value,pg_sleep,format,snowflake_open}'::text[] LOOP
			CONTINUE WHEN name = 'snowflake_open' AND a = 'bigint';
			EXECUTE format('CREATE FUNCTION %s(%s) RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN RAISE ''planted''; END $$', name, a);
		END LOOP;
		FOREACH b IN ARRAY types LOOP
			FOREACH name IN ARRAY '{planted,date_part,setval,round,timezone,generate_series,pg_advisory_xact_lock,pg_advisory_xact_lock_shared}'::text[] LOOP
				EXECUTE format('CREATE FUNCTION %s(%s, %s) RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN RAISE ''planted''; END $$', name, a, b);
			END LOOP;
			FOREACH name IN ARRAY '{+,-,*,/,%,&,|,<<,>>,<,<=,>,>=,=,<>}'::text[] LOOP
				EXECUTE format('CREATE OPERATOR %s (LEFTARG = %s, RIGHTARG = %s, FUNCTION = planted)', name, a, b);
			END LOOP;
		END LOOP;
	END LOOP;
END $plant$`

// A call runs no code of a role that may create functions and operators in the schema.
func TestPlantedFunctionsAndOperators(t *testing.T) {
	t.Parallel()
	for name, l := range map[string]snowflake.Layout{
		"default": snowflake.DefaultLayout(),
		"jssafe":  snowflake.JSSafeLayout(),
		"last":    {Epoch: 1, Unit: time.Microsecond, TimeBits: 41, WorkerBits: 3, SequenceBits: 4, WorkerLast: true},
		"fine":    {Epoch: snowflake.Epoch(time.Now().UnixMilli()), Unit: 100, TimeBits: 41, WorkerBits: 3, SequenceBits: 4},
	} {
		t.Run(name, func(t *testing.T) {
			f := install(t, shared(t), l)
			if name == "last" { // its time is over
				f.Layout.Epoch = snowflake.Epoch(time.Now().UnixMilli())
				f.Worker++ // the state is of the other layout
			}
			fence := servertest.Must(follow.NewFence(follow.PostgreSQL, f.Schema+".fence"))(t)
			require.NoError(t, fence.Create(t.Context(), f.DB))
			followed := f
			followed.Prefix, followed.Fence = "followed_", "fence"
			decode := servertest.Must(sqltext.Script(sqltext.PostgreSQL, f.Layout, "snowflake_"))(t)
			f.run(t)
			followed.run(t)
			f.exec(t, decode)
			f.exec(t, plant)

			f.DB = servertest.Open(t, "pgx", f.url("owner", f.path))
			_, err := f.Exec(`SELECT 1::bigint | 1::integer`)
			require.ErrorContains(t, err, "planted")
			id := f.must(t, 3000)[0]
			followed.DB = f.DB
			followed.must(t, 3000)
			f.setAbove(t, id)
			var at time.Time
			var valid bool
			var worker int
			var first snowflake.ID
			require.NoError(t, f.QueryRow(fmt.Sprintf(`SELECT t, snowflake_valid(id), snowflake_worker(id), snowflake_first(t)
				FROM (SELECT id, snowflake_time(id) AS t FROM (SELECT %d::bigint AS id) AS x) AS y`, id)).Scan(&at, &valid, &worker, &first))
			require.True(t, valid)
			require.Equal(t, f.Worker, worker)
			require.LessOrEqual(t, first, id)
			require.WithinDuration(t, f.Layout.Decode(id).Time, at, time.Microsecond)
		})
	}
}

// A worker ID has one state: the script fails if another schema has one.
func TestOneSchema(t *testing.T) {
	t.Parallel()
	f := install(t, shared(t), snowflake.DefaultLayout())
	other := f
	other.Schema = "Order" // a reserved word, and a capital
	f.exec(t, `CREATE SCHEMA "Order"`)
	script := servertest.Must(other.Script())(t)
	_, err := f.Exec(script)
	require.ErrorContains(t, err, fmt.Sprintf("schema %s has a state of worker 5", f.Schema))
	other.Worker = 6
	other.run(t)
	ids := servertest.Must(draw(f.DB, `SELECT "Order".snowflake_ids(3)`))(t)
	other.hold(t, ids[2])
}

// The script does not change an existing sequence, and refuses one that was altered, or that is of
// another layout.
func TestExistingSequence(t *testing.T) {
	t.Parallel()
	f := install(t, shared(t), snowflake.DefaultLayout())
	refused := func(f function, says string) {
		script := servertest.Must(f.Script())(t)
		_, err := f.Exec(script)
		require.ErrorContains(t, err, says)
	}
	other := f
	other.Layout = snowflake.JSSafeLayout()
	refused(other, "the state of worker 5 is not of the layout 33/4/15@2026-01-01,1s, but of: 41/10/12@2026-01-01,1ms")
	f.exec(t, `CREATE SEQUENCE snowflake_worker_7`)
	other = f
	other.Worker = 7
	refused(other, "but of: <NULL>")
	f.exec(t, `ALTER SEQUENCE `+f.state()+` CACHE 100`)
	refused(f, "somebody has altered the sequence")
}

// If the fence has no sequence, or the session may not read it, there are no IDs. PostgreSQL 18
// returns NULL in this case.
func TestFollowWithoutASequence(t *testing.T) {
	t.Parallel()
	f := installFollowed(t)
	f.exec(t, `ALTER SEQUENCE outbox_fence_mark RESTART`)
	_, err := draw(f.DB, insertRow)
	require.ErrorContains(t, err, "no right to read the fence's sequence")
	_, err = draw(f.DB, f.fence.SQL())
	require.ErrorContains(t, err, "no right to read the fence's sequence")
}
